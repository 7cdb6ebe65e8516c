"""What a connector reads from and writes to: two small protocols.

An end is a frozen Struct of its own settings, so that `NAME.yml` is checked without Spark: a module of an end imports
pyspark only inside its methods. To add one: write the Struct, put it into SOURCES or SINKS of `catalogue`.

**Rows.** Columns with plain names are the fields of a row; sinks write those. Names that begin with an underscore tell
of the row, and are there only if the source knows them:

| column | type | meaning |
|---|---|---|
| `_key`, `_value`, `_headers` | binary, binary, array | the record as it was read, for topics and dead letters |
| `_topic`, `_partition`, `_offset`, `_timestamp` | | where it was read, when it was written |
| `_table` | string | the table that the row is from |
| `_deleted` | boolean | the row is to be removed; of its fields only the key counts |
| `_order` | bigint | of rows with one key in one batch, the one with the greatest is the newest |
| `_route` | string | the topic or index that it goes to, by the transform `route` |
| `_error` | string | why it cannot go on; such rows become dead letters, or stop the connector |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# -- Paths in NAME.yml ---------------------------------------------------------------------------------

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def url_of(path: str, folder: Path) -> str:
    """A URL as it is; a path starts in the folder of NAME.yml, if it is no absolute one."""
    if _SCHEME.match(path):
        return path
    return f"file://{folder.resolve() / path}"


ERROR, DELETED, ORDER, ROUTE, TABLE = "_error", "_deleted", "_order", "_route", "_table"


class Feeder(Protocol):
    """Brings rows of a source that Spark cannot stream to where it can: called between batches, never twice at once."""

    def fetch(self) -> bool:
        """True if something came: there may be more."""


@dataclass
class ConnectorContext:
    """What an end may know of the connector it belongs to."""

    name: str
    folder: Path
    """Of NAME.yml: relative paths start here."""
    storage: str
    """URL of a folder for what the connector must remember; an end makes a folder of its own below it."""
    configuration: Mapping[str, str] = field(default_factory=dict)
    """`barnabas.*` settings of the brokers, `spark.*` of Spark."""
    feeders: list[Feeder] = field(default_factory=list)

    def broker_options(self) -> dict[str, str]:
        """The `kafka.*` options of our Spark source and sink."""
        from barnabas.pipelines import connection_options

        return connection_options(self.configuration)


class ConnectorSource(Protocol):
    def location(self) -> str:
        """For people: what is read, without secrets."""

    def read(self, session: SparkSession, context: ConnectorContext) -> DataFrame:
        """A streaming frame; the same columns in every run, the same rows when Spark runs a batch again."""


class SinkWriter(Protocol):
    def write(self, rows: DataFrame, query: str, batch: int) -> DataFrame | None:
        """One micro-batch, exactly once: it may be called again with the same batch of the same query, in this process
        or after kill -9, and must leave each row once. Rows that the sink refuses come back, with `_error`; those of a
        batch that was written before come back again. `rows` may be computed more than once."""

    def close(self) -> None:
        """The connector stops, or starts again with another writer."""


class ConnectorSink(Protocol):
    is_routed: ClassVar[bool]
    """Whether `_route` says where a row goes; the transform `route` is refused for other sinks."""

    def location(self) -> str: ...

    def open(
        self, session: SparkSession, context: ConnectorContext, columns: Mapping[str, str]
    ) -> SinkWriter:
        """Before the first batch: tables are made or checked here, PipelineError if they do not fit. `columns` are
        those of the rows, with their types as Spark writes them. May be called in every run."""


class ConnectorEndpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base of the settings of an end: `class JdbcSink(End, frozen=True)`."""


def fields_of(columns: Mapping[str, Any] | list[str]) -> list[str]:
    """Those that are written: what tells of the row is left out."""
    return [name for name in columns if not name.startswith("_")]
