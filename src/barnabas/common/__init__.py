"""Utilities independent of the Kafka protocol. Import its modules directly: they are the public interface."""
