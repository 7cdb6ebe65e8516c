"""`barnabas queue`: share groups as queues of jobs."""
