"""Public path of the Spark session builder; defined in `barnabas.spark.session`."""

from barnabas.spark import session_builder

__all__ = ["session_builder"]
