"""Sinks of connectors; each writes every row exactly once, with the means of its target system. Modules import pyspark
lazily."""
