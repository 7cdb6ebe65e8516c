"""What visitors may like: items seen together, and preferences learnt from the warehouse."""
