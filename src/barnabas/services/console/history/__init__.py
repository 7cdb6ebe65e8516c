"""Curves that survive a restart: one row a tick in SQLite."""
