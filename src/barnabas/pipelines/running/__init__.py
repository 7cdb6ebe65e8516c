"""Runs pipelines: definitions become Structured Streaming queries, watched, measured and started again with state."""
