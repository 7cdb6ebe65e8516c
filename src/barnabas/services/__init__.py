"""Processes that run next to a cluster and talk to it as clients: console, schema registry, mirror, ingest agents."""
