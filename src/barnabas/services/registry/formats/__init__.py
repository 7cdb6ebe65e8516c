"""Schemas as texts become something that can be compared: one module for each language."""
