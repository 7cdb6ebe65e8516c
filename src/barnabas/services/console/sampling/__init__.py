"""Cluster snapshots, sampled in the background, so that no page waits for a broker."""
