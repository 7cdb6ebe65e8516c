"""What a producer is made of: batches that fill, and requests that carry them to the leaders."""
