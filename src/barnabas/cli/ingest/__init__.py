"""`barnabas ingest`."""
