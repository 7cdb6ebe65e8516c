"""Partitions as this broker sees them: leadership, in-sync replicas, high watermark, and who waits for what."""
