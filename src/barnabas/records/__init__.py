"""Record batches: the opaque unit that the broker moves, and the tools of those who look inside."""
