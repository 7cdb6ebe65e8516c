"""Public path of `parse_ddl`, for pipeline folders; defined in `barnabas.spark.source.ddl`."""

from barnabas.spark.source.ddl import parse_ddl

__all__ = ["parse_ddl"]
