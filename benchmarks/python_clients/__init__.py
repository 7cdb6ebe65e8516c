"""Comparison of Python clients: `client` runs one of them, `__main__` all of them."""
