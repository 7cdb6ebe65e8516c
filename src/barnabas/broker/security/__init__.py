"""Security put together from the configuration: who is let in, what it may do, and what is written down of it."""
