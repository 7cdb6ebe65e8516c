"""Recommendations for visitors: items viewed together, and preferences learnt from the warehouse."""
