"""Barnabas and Apache Kafka: an agent must not notice which of them it writes to."""

from tests.client.conftest import apache_kafka, bootstrap, embedded

__all__ = ["apache_kafka", "bootstrap", "embedded"]
