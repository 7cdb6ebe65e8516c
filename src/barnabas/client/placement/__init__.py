"""Where partitions are, plans for moving them, and carrying those out."""
