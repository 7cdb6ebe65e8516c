"""What tiered topics cost and save. The rows need an object store that others wrote (versitygw)."""
