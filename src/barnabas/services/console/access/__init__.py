"""Who visits the console, what they may do and see, and what is written down of it."""
