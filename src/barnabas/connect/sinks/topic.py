"""`to: {topic: {topic: orders, key: id, format: json}}`"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from barnabas.connect.endpoints import DELETED, ROUTE, ConnectorContext, ConnectorEndpoint, fields_of
from barnabas.spark import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Format = Literal["json", "text", "raw"]
HEADERS = "_headers"


class TopicSink(ConnectorEndpoint, frozen=True):
    """`json` writes all fields as an object; `text` and `raw` write one field, `value`, unchanged. Deleted rows become
    tombstones. Without `key` a record keeps its original key."""

    is_routed: ClassVar[bool] = True

    topic: str | None = None
    key: str | list[str] | None = None
    format: Format = "json"
    value: str = "value"
    headers: bool = True
    """Keep the original headers of records."""
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    partitions: int = 1
    """Partitions of the topic if the sink creates it."""

    def location(self) -> str:
        return f"topic {self.topic or '(by route)'}"

    def open(
        self, session: SparkSession, context: ConnectorContext, columns: Mapping[str, str]
    ) -> TopicWriter:
        if self.topic is None and ROUTE not in columns:
            raise PipelineError(
                "Where to write: give the sink `topic`, or the connector a transform `route`."
            )
        return TopicWriter(self, context, columns)


class RecordWriter:
    """Writes with our Spark sink, passing the batch number explicitly: `foreachBatch` is not a stream to the sink."""

    def __init__(self, context: ConnectorContext, sink_id: str, compression: str = "none") -> None:
        self._options = {
            **context.broker_options(),
            "kafka.compression.type": compression,
            "sinkId": sink_id,
        }

    def write_records(self, records: DataFrame, query: str, batch: int) -> None:
        """Write rows with `key`, `value`, `topic` and optional `headers`."""
        writer = records.write.format("barnabas").options(**self._options)
        writer.option("batchOf", query).option("batchNumber", str(batch)).mode("append").save()


class TopicWriter(RecordWriter):
    def __init__(self, sink: TopicSink, context: ConnectorContext, columns: Mapping[str, str]) -> None:
        super().__init__(context, f"connect-{context.name}", sink.compression)
        self._sink = sink
        self._columns = dict(columns)

    def write(self, rows: DataFrame, query: str, batch: int) -> None:
        self.write_records(self.records(rows), query, batch)

    def close(self) -> None:
        pass

    def records(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        columns = {"key": self._key(), "value": self._value(), "topic": self._topic()}
        if self._sink.headers and HEADERS in self._columns:
            columns["headers"] = F.col(HEADERS)
        return rows.select(*(column.alias(name) for name, column in columns.items()))

    def _topic(self) -> Column:
        from pyspark.sql import functions as F

        return F.col(ROUTE) if ROUTE in self._columns else F.lit(self._sink.topic)

    def _key(self) -> Column:
        from pyspark.sql import functions as F

        named = self._sink.key
        if named is None:
            return F.col("_key") if "_key" in self._columns else F.lit(None).cast("binary")
        if isinstance(named, str):
            column = F.col(f"`{self._known(named)}`")
            return column.cast("binary" if self._columns[named] == "binary" else "string").cast("binary")
        return F.to_json(F.struct(*(F.col(f"`{self._known(name)}`") for name in named))).cast("binary")

    def _value(self) -> Column:
        from pyspark.sql import functions as F

        if self._sink.format == "json":
            fields = [F.col(f"`{name}`") for name in fields_of(self._columns)]
            value = F.to_json(F.struct(*fields), {"ignoreNullFields": "false"}).cast("binary")
        else:
            name = self._known(self._sink.value)
            kind = "binary" if self._columns[name] == "binary" else "string"
            value = F.col(f"`{name}`").cast(kind).cast("binary")
        if DELETED not in self._columns:
            return value
        return F.when(~F.coalesce(F.col(DELETED), F.lit(False)), value)

    def _known(self, name: str) -> str:
        if name not in self._columns:
            raise PipelineError(
                f"The sink names the field {name}, which the rows do not have; they have {', '.join(self._columns)}."
            )
        return name
