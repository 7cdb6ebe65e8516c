"""Exactly-once tables of Parquet files by the hour, plain or Iceberg, on any Hadoop file system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.pipelines.lake.iceberg_table import iceberg_of as iceberg_of
    from barnabas.pipelines.lake.iceberg_writing import IcebergWriter as IcebergWriter
    from barnabas.pipelines.lake.layout import HIDDEN as HIDDEN
    from barnabas.pipelines.lake.writer import LakeWriter as LakeWriter
    from barnabas.pipelines.lake.writer import query_id as query_id
else:
    __getattr__ = lazy_exports(__name__)
