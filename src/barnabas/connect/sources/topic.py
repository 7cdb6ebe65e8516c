"""`from: {topic: {topic: orders, format: json, schema: "id BIGINT, amount DOUBLE"}}`"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from barnabas.connect.endpoints import DELETED, ERROR, ORDER, ConnectorContext, ConnectorEndpoint
from barnabas.spark import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Format = Literal["json", "avro", "protobuf", "csv", "text", "raw"]
RECORD = {
    "_key": "BINARY",
    "_value": "BINARY",
    "_headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "_topic": "STRING",
    "_partition": "INT",
    "_offset": "BIGINT",
    "_timestamp": "TIMESTAMP",
}
CORRUPT = "_corrupt_record"


class TopicSource(ConnectorEndpoint, frozen=True):
    """Committed records of topics. With `raw`, `key` and `value` are bytes; with `text`, strings."""

    topic: str | None = None
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    format: Format = "json"
    schema: str | None = None
    registry: str | Literal[True] | None = None
    """Values begin with the id of their schema: URL of the registry, or `true` for that of `configuration` or of the
    cluster."""
    delimiter: str = ","
    start: Literal["earliest", "latest"] = "earliest"
    max_records: int = 100_000
    """Maximum per micro-batch."""

    def location(self) -> str:
        return f"topic {self.pattern or ', '.join(self.names())}"

    def read(self, session: SparkSession, context: ConnectorContext) -> DataFrame:
        options = self._options(context)
        if self.format in ("raw", "text"):
            return self._plain(session, options)
        return self._typed(session, options)

    def names(self) -> list[str]:
        """Topics of the source; empty for a pattern."""
        return [*([self.topic] if self.topic else []), *self.topics]

    def _options(self, context: ConnectorContext) -> dict[str, str]:
        names = self.names()
        if bool(names) == (self.pattern is not None):
            raise PipelineError("A source `topic` needs either `topic` (or `topics`) or `pattern`.")
        which = {"subscribePattern": self.pattern} if self.pattern else {"subscribe": ",".join(names)}
        return {
            **context.broker_options(),
            **which,
            "kafka.isolation.level": "read_committed",
            "startingOffsets": self.start,
            "maxOffsetsPerTrigger": str(self.max_records),
        }

    def _plain(self, session: SparkSession, options: dict[str, str]) -> DataFrame:
        from pyspark.sql import functions as F

        read = session.readStream.format("barnabas").options(**options, includeHeaders="true").load()
        expected = "string" if self.format == "text" else "binary"
        record = {name: F.col(name.removeprefix("_")) for name in RECORD}
        fields = {name: F.col(name).cast(expected) for name in ("key", "value")}
        return _told_of(
            read.select(*(one.alias(name) for name, one in {**fields, **record}.items())), F.lit(None)
        )

    def _typed(self, session: SparkSession, options: dict[str, str]) -> DataFrame:
        from pyspark.sql import functions as F

        options |= {"value.format": self.format}
        if self.registry is not None:
            options["value.registry"] = self.registry if isinstance(self.registry, str) else "true"
        if self.format == "csv":
            options["value.csv.delimiter"] = self.delimiter
        reader = session.readStream.format("barnabas").options(**options)
        read = reader.schema(f"{self._fields(options)}, {_ddl(RECORD)}, {CORRUPT} BINARY").load()
        # Tombstones have no value and match every schema.
        wrong = F.when(
            F.col(CORRUPT).isNotNull(), F.lit(f"the value is not valid {self.format} for the schema")
        )
        return _told_of(read, wrong).drop(CORRUPT)

    def _fields(self, options: dict[str, str]) -> str:
        if self.schema is not None:
            return self.schema
        if self.format != "protobuf" and (self.format == "csv" or self.registry is None):
            others = "" if self.format == "csv" else ", or `registry`"
            raise PipelineError(
                f"A source `topic` with `format: {self.format}` needs `schema` (example: `id BIGINT, name STRING`)"
                f"{others}."
            )
        from barnabas.spark import OptionError
        from barnabas.spark.source import schema_of

        try:
            return ", ".join(
                f"`{one.name}` {one.dataType.simpleString()}" for one in schema_of(options).fields
            )
        except OptionError as error:
            raise PipelineError(f"Cannot determine the fields of {self.location()}.", str(error)) from None


def _told_of(read: DataFrame, wrong: object) -> DataFrame:
    from pyspark.sql import functions as F

    return read.withColumns(
        {
            DELETED: F.col("_value").isNull(),
            ORDER: F.col("_offset"),
            ERROR: F.lit(wrong).cast("string"),
        }
    )


def _ddl(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())
