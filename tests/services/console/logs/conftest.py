"""Barnabas and Apache Kafka as sources of the tailer."""

from tests.client.conftest import apache_kafka, bootstrap, embedded

__all__ = ["apache_kafka", "bootstrap", "embedded"]
