"""Conversations with group coordinators, recorded so that two brokers can be compared."""
