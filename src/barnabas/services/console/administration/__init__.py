"""Cluster administration behind the pages, without HTTP: settings, reassignments, partitions, dead letters."""
