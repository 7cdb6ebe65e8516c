"""Records over HTTP: JSON in, 200 when they are committed, once for each Idempotency-Key."""
