"""Loads for the console."""
