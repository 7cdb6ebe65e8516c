"""Agents that read files, sockets and counters of a machine into topics, each record exactly once."""
