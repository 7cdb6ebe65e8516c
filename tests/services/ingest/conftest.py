"""Barnabas and Apache Kafka as targets of an agent."""

from tests.client.conftest import apache_kafka, bootstrap, embedded

__all__ = ["apache_kafka", "bootstrap", "embedded"]
