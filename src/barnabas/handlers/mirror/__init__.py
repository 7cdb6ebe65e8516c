"""Mirror topics, and batches of other clusters for them."""
