"""Parsers from schema texts to comparable schemas: one module per format."""
