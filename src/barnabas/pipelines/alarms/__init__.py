"""Alarms on streams: a windowed value that exceeds a threshold for too long, and recovers."""
