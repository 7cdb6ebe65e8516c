"""Orders that learn who their customers are."""
