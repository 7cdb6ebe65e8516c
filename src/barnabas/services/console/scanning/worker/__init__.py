"""What a search process does: reads ranges of offsets as columns, decides which records are wanted, and shows those."""
