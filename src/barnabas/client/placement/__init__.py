"""Replica placement: layout of a cluster, reassignment plans and their execution."""
