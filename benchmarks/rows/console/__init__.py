"""Rows about the console."""
