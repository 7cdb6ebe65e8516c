"""Sources of connectors. Modules import pyspark lazily."""
