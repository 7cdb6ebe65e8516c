"""Recorded conversations with group coordinators, for comparison between brokers."""
