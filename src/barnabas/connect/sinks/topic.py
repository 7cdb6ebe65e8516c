"""`to: {topic: {topic: orders, key: id, format: json}}`"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from barnabas.connect.endpoints import DELETED, ROUTE, ConnectorContext, ConnectorEndpoint, fields_of
from barnabas.spark import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Format = Literal["json", "text", "raw", "avro", "protobuf", "json_schema"]
KeyFormat = Literal["avro", "protobuf", "json_schema"]
Strategy = Literal["TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy"]
REGISTERED = {"avro": "avro", "protobuf": "protobuf", "json_schema": "json"}
"""Formats of a schema registry, by the sink's `value.format`."""
AS_IS = "__"
HEADERS = "_headers"
NO_FORMATS: Mapping[str, str] = {}


class TopicSink(ConnectorEndpoint, frozen=True):
    """`json` writes all fields as an object; `text` and `raw` write one field, `value`, unchanged; `avro`, `protobuf`
    and `json_schema` write all fields with a registered schema. Deleted rows become tombstones. Without `key` a record
    keeps its original key."""

    is_routed: ClassVar[bool] = True

    topic: str | None = None
    key: str | list[str] | None = None
    format: Format = "json"
    value: str = "value"
    key_format: KeyFormat | None = None
    """Write the key with a schema, too: the field, or a record of the fields of `key`."""
    registry: str | None = None
    """URL of the schema registry; default: that of `configuration`, or of the cluster."""
    subject: Strategy = "TopicNameStrategy"
    record: str | None = None
    """Full name of the record or message, such as `shop.Order`; by default made of the topic's name."""
    register: bool = True
    """Register the schema of the rows; otherwise the subject must have it."""
    latest: bool = False
    """Write with the newest schema of the subject, which the fields must fit."""
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
            raise PipelineError("No target topic: set `topic` of the sink, or add a transform `route`.")
        if self.key_format is not None and self.key is None:
            raise PipelineError("A sink `topic` with `key_format` needs `key`, the fields of the key.")
        writer = TopicWriter(self, context, columns)
        writer.prepare(session)
        return writer

    def registry_options(self) -> dict[str, str]:
        """Options of our Spark sink for columns with a schema."""
        formats = {"value": REGISTERED.get(self.format), "key": REGISTERED.get(self.key_format or "")}
        chosen = {f"{column}.format": kind for column, kind in formats.items() if kind is not None}
        if not chosen:
            return {}
        strategy = {f"{column}.subject.name.strategy": self.subject for column in formats}
        record = {}
        if self.record is not None:
            record = {"value.record.name": self.record, "key.record.name": f"{self.record}Key"}
        return {
            **chosen,
            **strategy,
            **record,
            **({} if self.registry is None else {"schema.registry.url": self.registry}),
            "auto.register.schemas": str(self.register and not self.latest).lower(),
            "use.latest.version": str(self.latest).lower(),
        }


class RecordWriter:
    """Writes with our Spark sink, passing the batch number explicitly: `foreachBatch` is not a stream to the sink."""

    def __init__(
        self,
        context: ConnectorContext,
        sink_id: str,
        compression: str = "none",
        formats: Mapping[str, str] = NO_FORMATS,
    ) -> None:
        self._options = {
            **context.broker_options(),
            **formats,
            "kafka.compression.type": compression,
            "sinkId": sink_id,
        }

    def write_records(self, records: DataFrame, query: str, batch: int) -> None:
        """Write rows with `key`, `value`, `topic` and optional `headers`."""
        writer = records.write.format("barnabas").options(**self._options)
        writer.option("batchOf", query).option("batchNumber", str(batch)).mode("append").save()


class TopicWriter(RecordWriter):
    def __init__(self, sink: TopicSink, context: ConnectorContext, columns: Mapping[str, str]) -> None:
        formats = sink.registry_options()
        super().__init__(context, f"connect-{context.name}", sink.compression, formats)
        if formats and sink.topic is not None:
            self._options["__subjects"] = sink.topic  # not `topic`: dead letters have another
        self._encoded = [name for name in ("key", "value") if f"{name}.format" in formats]
        self._sink = sink
        self._columns = dict(columns)

    def write(self, rows: DataFrame, query: str, batch: int) -> None:
        self.write_records(self.records(rows), query, batch)

    def close(self) -> None:
        pass

    def prepare(self, session: SparkSession) -> None:
        """Register the schemas, before the query starts; PipelineError with the reason if they are refused."""
        from pyspark.sql import functions as F

        from barnabas.spark import OptionError
        from barnabas.spark.sink import register_formats

        if not self._encoded:
            return
        none = [F.lit(None).cast(kind).alias(name) for name, kind in self._columns.items()]
        try:
            register_formats(self._options, self.records(session.range(0).select(*none)).schema)
        except OptionError as error:
            raise PipelineError(f"Cannot write the rows to {self._sink.location()}.", str(error)) from None

    def with_letters(self, records: DataFrame, letters: DataFrame) -> DataFrame:
        """Both in one write: the bytes of dead letters are written as they are."""
        for name in self._encoded:
            if name in letters.columns:
                letters = letters.withColumnRenamed(name, AS_IS + name)
        return records.unionByName(letters, allowMissingColumns=True)

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
        if self._sink.key_format is not None:
            names = [named] if isinstance(named, str) else named
            fields = [F.col(f"`{self._known(name)}`") for name in names]
            return fields[0] if isinstance(named, str) else F.struct(*fields)
        if isinstance(named, str):
            column = F.col(f"`{self._known(named)}`")
            return column.cast("binary" if self._columns[named] == "binary" else "string").cast("binary")
        return F.to_json(F.struct(*(F.col(f"`{self._known(name)}`") for name in named))).cast("binary")

    def _value(self) -> Column:
        from pyspark.sql import functions as F

        if self._sink.format in REGISTERED:
            value = F.struct(*(F.col(f"`{name}`") for name in fields_of(self._columns)))
        elif self._sink.format == "json":
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
