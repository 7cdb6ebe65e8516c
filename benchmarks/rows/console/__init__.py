"""Rows about the web console."""
