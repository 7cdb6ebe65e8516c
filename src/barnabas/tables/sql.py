"""SQL over topics with DuckDB, which pushes columns and filters down, so that only the required data is read."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from barnabas.client.offsets import OffsetRange
from barnabas.common.installation import extra_command
from barnabas.tables.dataset import TopicDataset
from barnabas.tables.errors import TableError
from barnabas.tables.reader import Statistics
from barnabas.tables.shapes import CORRUPT
from barnabas.tables.table import Table

# -- A DuckDB connection that sees topics only: no files, no network, no variables of the caller -------


@contextmanager
def database(datasets: Mapping[str, TopicDataset], memory: str | None = None) -> Iterator[Any]:
    """Open a connection. Data beyond `memory` spills to a temporary folder. Closing it ends all scans."""
    duckdb = import_duckdb()
    with tempfile.TemporaryDirectory(prefix="barnabas-sql-") as folder:
        connection = duckdb.connect(":memory:")
        try:
            connection.execute("SET python_enable_replacements = false")
            connection.execute("SET temp_directory = ?", [folder])
            if memory is not None:
                connection.execute("SET memory_limit = ?", [memory])
            for name, dataset in datasets.items():
                connection.register(name, dataset)
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            yield connection
        except duckdb.Error as error:
            raise TableError(str(error)) from error
        finally:
            connection.close()
            for dataset in datasets.values():
                dataset.close()


def import_duckdb() -> Any:
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise TableError(f"SQL queries need DuckDB: {extra_command('table')}") from error
    return duckdb


HIDDEN = (CORRUPT, "_value", "_topic", "_timestampType")  # not in `select *`; available in Python

OpenTable = Callable[[str], Table]


@dataclass(frozen=True)
class QueryResult:
    rows: pa.Table
    plan: str = ""  # DuckDB's, if requested
    reads: dict[str, list[Statistics]] = field(default_factory=dict)

    @property
    def bad_values(self) -> int:
        return sum(read.bad_values for reads in self.reads.values() for read in reads)


def query(
    text: str, open_table: OpenTable, *, memory: str | None = None, explain: bool = False
) -> QueryResult:
    """Run a query, or explain and run it. Every topic that it names is a table with that name."""
    datasets = {name: _dataset(open_table(name)) for name in topics_of(text)}
    with database(datasets, memory) as connection:
        found = connection.sql(f"EXPLAIN ANALYZE {text}" if explain else text)
        if found is None:
            raise TableError("not a query: write SELECT ... FROM topic")
        rows = found.to_arrow_table()
    reads = {name: dataset.statistics for name, dataset in datasets.items()}
    if not explain:
        return QueryResult(rows, reads=reads)
    plan = "\n".join(rows.column(rows.num_columns - 1).to_pylist())
    return QueryResult(rows.slice(0, 0), plan, reads)


def topics_of(text: str) -> list[str]:
    """Tables that a query names; TableError if it cannot be parsed. The query does not run."""
    duckdb = import_duckdb()
    connection = duckdb.connect(":memory:")
    try:
        ((answer,),) = connection.execute("SELECT json_serialize_sql(?)", [text]).fetchall()
    finally:
        connection.close()
    parsed = json.loads(answer)
    if parsed["error"]:
        raise TableError(f"not a query over topics: {parsed['error_message']}")
    if len(parsed["statements"]) != 1:
        raise TableError("only one query at a time")
    nodes = list(_walk(parsed))
    names = {_name(node) for node in nodes if node.get("type") == "BASE_TABLE"}
    own = {entry["key"] for node in nodes for entry in (node.get("cte_map") or {}).get("map", ())}
    return sorted(names - own)


def _walk(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        node = list(node.values())
    if isinstance(node, list):
        for inner in node:
            yield from _walk(inner)


def _name(node: dict[str, Any]) -> str:
    parts = [node.get("catalog_name"), node.get("schema_name"), node["table_name"]]
    qualified = ".".join(part for part in parts if part)
    if qualified != node["table_name"]:
        raise TableError(f'SQL reads {qualified} as schema and table: quote the topic, "{qualified}"')
    return qualified


def _dataset(table: Table) -> TopicDataset:
    return table.dataset([name for name in table.schema.names if name not in HIDDEN])


def describe(topic: str, read: Statistics) -> str:
    """Summary of one scan, for display."""
    offsets = sum(offset_range.size for offset_range in read.ranges)
    columns = ", ".join(read.columns) or "none"
    return (
        f"{topic}: {offsets:,} offsets in {_ranges(read.ranges)}, {read.records:,} records, {read.bytes:,} bytes of "
        f"batches; columns {columns}"
    )


def _ranges(ranges: list[OffsetRange], limit: int = 8) -> str:
    shown = ", ".join(
        f"{offset_range.tp}[{offset_range.first}, {offset_range.until})" for offset_range in ranges[:limit]
    )
    more = f" and {len(ranges) - limit} more" if len(ranges) > limit else ""
    return f"{shown}{more}" if ranges else "no range"
