"""Barnabas: a Kafka that installs with pip."""

__version__ = "0.1.0"
