"""A consumer in a group: membership by either protocol, positions that are committed."""
