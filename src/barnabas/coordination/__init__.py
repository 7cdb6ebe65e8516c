"""State machines on logs: what groups, transactions and share groups have in common."""
