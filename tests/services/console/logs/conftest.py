"""Barnabas and Apache Kafka: the tailer must not notice which of them it reads."""

from tests.client.conftest import apache_kafka, bootstrap, embedded

__all__ = ["apache_kafka", "bootstrap", "embedded"]
