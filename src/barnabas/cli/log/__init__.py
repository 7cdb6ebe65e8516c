"""`barnabas log`: a broker's files."""
