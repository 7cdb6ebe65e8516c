"""Persistent time series: one SQLite row per tick."""
