"""Kafka's messages, one module per family; barnabas.protocol.api finds them by API key."""
