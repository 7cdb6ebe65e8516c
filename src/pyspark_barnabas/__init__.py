"""Data source `barnabas`. Spark discovers modules named `pyspark_*` with a `DefaultSource` without registration.

spark.readStream.format("barnabas").option("kafka.bootstrap.servers", "127.0.0.1:9092").option("subscribe", "orders")

Spark imports this module for every query that uses any data source, so it imports nothing heavy: readers and writers
are in `barnabas.spark` and imported on use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    from pyspark.sql.datasource import DataSource
except ModuleNotFoundError as error:
    from barnabas.common.installation import extra_command

    text = f"Spark's data source barnabas needs {error.name}: {extra_command('spark')}"
    raise ModuleNotFoundError(text, name=error.name) from None

from barnabas.spark.worker_check import OPTION as CHECK
from barnabas.spark.worker_check import SCHEMA as CHECK_SCHEMA
from barnabas.spark.worker_check import WorkerCheckReader, use_this_python
from barnabas.spark.worker_process import leave_quietly

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]

leave_quietly()
use_this_python()


class DefaultSource(DataSource):
    """Topics of Barnabas or any Kafka cluster as tables and streams."""

    @classmethod
    def name(cls) -> str:
        return "barnabas"

    def schema(self) -> Any:
        if CHECK in self.options:
            return CHECK_SCHEMA
        from barnabas.spark.source import schema_of

        return schema_of(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        if CHECK in self.options:
            return WorkerCheckReader()
        from barnabas.spark.source import make_reader

        return make_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from barnabas.spark.source import make_stream_reader

        return make_stream_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from barnabas.spark.sink import make_batch_writer

        return make_batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        from barnabas.spark.sink import make_stream_writer

        return make_stream_writer(self.options, schema, overwrite)
