"""Settings of who a client is, what it may do, how much, and what is written down of it."""
