"""Topics as tables and streams: `spark.read` and `spark.readStream` with format "barnabas".

The options and columns are those of Spark's own Kafka connector (docs/pipelines/source.md). The driver asks where
partitions begin and end; tasks fetch whole record batches and decode them to Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from barnabas.spark.source.columns import schema_of, shape_of
from barnabas.spark.source.offsets import EARLIEST, LATEST, OffsetSpec, by_topic, flat
from barnabas.spark.source.settings import SourceSettings
from barnabas.spark.source.stream import BatchReader, StreamReader
from barnabas.spark.source.topics import OffsetResolver

__all__ = [
    "EARLIEST",
    "LATEST",
    "OffsetResolver",
    "OffsetSpec",
    "by_topic",
    "flat",
    "make_reader",
    "make_stream_reader",
    "schema_of",
]


def make_reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    return BatchReader(SourceSettings.parse(options, streaming=False), shape_of(options, schema))


def make_stream_reader(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    return StreamReader(SourceSettings.parse(options, streaming=True), shape_of(options, schema))
