"""Requests of readers of share groups, and about their state."""
