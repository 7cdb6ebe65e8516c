"""Definitions of all settings: Kafka's name, type, default, validation, documentation and update mode."""
