"""`barnabas cluster` and `barnabas zookeeper`."""
