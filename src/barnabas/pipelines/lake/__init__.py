"""Exactly-once tables of Parquet files by the hour, plain or Iceberg, on any Hadoop file system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.pipelines.lake.iceberg_table import iceberg_of
    from barnabas.pipelines.lake.iceberg_writing import IcebergWriter
    from barnabas.pipelines.lake.layout import HIDDEN
    from barnabas.pipelines.lake.writer import LakeWriter, query_id
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "iceberg_table": "iceberg_of",
            "iceberg_writing": "IcebergWriter",
            "layout": "HIDDEN",
            "writer": "LakeWriter query_id",
        },
    )

__all__ = ["HIDDEN", "IcebergWriter", "LakeWriter", "iceberg_of", "query_id"]
