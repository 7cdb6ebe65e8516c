"""Loads of the console."""
