"""Metrics that clients push to the broker (KIP-714): who shall push what, and what Prometheus sees of it."""
