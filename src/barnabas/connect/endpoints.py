"""Protocols of sources and sinks.

An endpoint is a frozen Struct of its settings, so that `NAME.yml` is validated without Spark: endpoint modules import
pyspark only inside methods. To add an endpoint, write the Struct and add it to SOURCES or SINKS of `declaration`.

**Rows.** Columns with plain names are the fields of a row; sinks write those. Columns whose name begins with an
underscore are metadata, present only if the source provides them:

| column | type | meaning |
|---|---|---|
| `_key`, `_value`, `_headers` | binary, binary, array | the original record, for topics and dead letters |
| `_topic`, `_partition`, `_offset`, `_timestamp` | | position and timestamp of the original record |
| `_table` | string | the source table of the row |
| `_deleted` | boolean | the row is to be removed; only its key fields count |
| `_order` | bigint | among rows with the same key in a batch, the highest value is the newest row |
| `_route` | string | the target topic or index, set by the transform `route` |
| `_error` | string | the reason for rejecting the row; such rows become dead letters, or stop the connector |
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
    """Return a URL unchanged; resolve a relative path against the folder of NAME.yml."""
    if _SCHEME.match(path):
        return path
    return f"file://{folder.resolve() / path}"


ERROR, DELETED, ORDER, ROUTE, TABLE = "_error", "_deleted", "_order", "_route", "_table"


class Feeder(Protocol):
    """Stages rows of a source that Spark cannot stream. Called between batches, never concurrently."""

    def fetch(self) -> bool:
        """Return True if rows were staged; there may be more."""


@dataclass
class ConnectorContext:
    """Properties of a connector available to its source and sink."""

    name: str
    folder: Path
    """Folder of NAME.yml; relative paths start here."""
    storage: str
    """URL of the folder for persistent state; each endpoint creates a subfolder."""
    configuration: Mapping[str, str] = field(default_factory=dict)
    """`barnabas.*` settings for the brokers, `spark.*` settings for Spark."""
    feeders: list[Feeder] = field(default_factory=list)

    def broker_options(self) -> dict[str, str]:
        """Return the `kafka.*` options for our Spark source and sink."""
        from barnabas.pipelines import connection_options

        return connection_options(self.configuration)


class ConnectorSource(Protocol):
    def location(self) -> str:
        """Description of the source for display, without secrets."""

    def read(self, session: SparkSession, context: ConnectorContext) -> DataFrame:
        """Return a streaming DataFrame: the same columns in every run, the same rows when Spark repeats a batch."""


class SinkWriter(Protocol):
    def write(self, rows: DataFrame, query: str, batch: int) -> DataFrame | None:
        """Write one micro-batch exactly once: a call repeated for the same query and batch, in this process or after
        kill -9, must not write a row twice. Return the rejected rows with `_error`, also for a batch that was written
        before. `rows` may be computed more than once."""

    def close(self) -> None:
        """Release resources: the connector stops, or restarts with a new writer."""


class ConnectorSink(Protocol):
    is_routed: ClassVar[bool]
    """True if `_route` selects the target of a row; other sinks reject the transform `route`."""

    def location(self) -> str: ...

    def open(
        self, session: SparkSession, context: ConnectorContext, columns: Mapping[str, str]
    ) -> SinkWriter:
        """Create or check the tables before the first batch; PipelineError if they do not match. `columns` maps the
        columns of the rows to their Spark SQL types. Called in every run."""


class ConnectorEndpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base class of endpoint settings: `class JdbcSink(ConnectorEndpoint, frozen=True)`."""


def fields_of(columns: Mapping[str, Any] | list[str]) -> list[str]:
    """Return the fields that sinks write: all columns except metadata."""
    return [name for name in columns if not name.startswith("_")]
