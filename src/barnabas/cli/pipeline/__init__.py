"""`barnabas pipeline`."""
