"""Alarms on streams: a value over a window that goes beyond a threshold for too long, and comes back."""
