"""Requests about groups: one module per type of group, offsets, and what administrators ask."""
