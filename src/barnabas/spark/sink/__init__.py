"""The sink: `df.write.format("barnabas")` and `df.writeStream.format("barnabas")`, exactly once.

settings   options and columns, checked
writer     Spark's writers, on the driver and in tasks
formats    columns as values of a schema registry
rows       Arrow -> encoded batches
protocol   exactly once, without I/O
state      what a sink remembers
driver     executes the protocol's steps on a cluster, and reads the state
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.spark.options import OptionError

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType


def make_stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceStreamWriter:
    """Rows of every output mode are appended, as by Spark's own Kafka sink."""
    from barnabas.spark.sink.settings import read_settings
    from barnabas.spark.sink.writer import StreamWriter

    return StreamWriter(read_settings(options, schema, is_streaming=True))


def register_formats(options: Mapping[str, str], schema: StructType) -> None:
    """Register the schemas of `value.format` and `key.format`; OptionError with the registry's reason if refused."""
    from barnabas.spark.options import Options
    from barnabas.spark.sink.formats import SUBJECTS, registered_formats, write_formats

    raw_options = Options(options, "sink")
    registered_formats(
        write_formats(raw_options), schema, raw_options.text("topic") or raw_options.internal(SUBJECTS)
    )


def make_batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceWriter:
    from barnabas.spark.sink.settings import read_settings
    from barnabas.spark.sink.writer import BatchWriter, NumberedWriter

    if overwrite:
        raise OptionError("a topic can only be appended to: use mode('append')")
    settings = read_settings(options, schema, is_streaming=False)
    return NumberedWriter(settings) if settings.batch_of else BatchWriter(settings)
