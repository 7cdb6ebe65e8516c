"""What the broker counts and measures, and how monitoring reads it."""
