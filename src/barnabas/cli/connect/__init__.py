"""`barnabas connect`."""
