"""Every setting once: Kafka's name, type, default, check, documentation, and when it may change."""
