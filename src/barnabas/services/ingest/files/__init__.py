"""Files into a topic: found by patterns, recognised after rotation, read line by line."""
