"""`barnabas mirror`."""
