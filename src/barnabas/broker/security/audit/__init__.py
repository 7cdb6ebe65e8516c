"""Writes the audit log, to a file and to a topic."""
