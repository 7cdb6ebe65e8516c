"""Spark on clusters."""
