"""Cluster pages: brokers and their settings, reassignments, transactions, dead letters, mirrors, tiering."""
