"""A consistent snapshot of the tables, in parts that tasks read in parallel.

The first snapshot is the one exported with the slot: the stream continues exactly where it ends. It exists until the
connection that created the slot is closed. After a restart a new one is taken, later than the slot's first position:
the stream repeats the changes in between, under the same keys and in order, so that the last change of each key is the
state of the table. The slot is kept: the sink may already have rows of the first snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from barnabas.connect.sources.postgres.changes import RowChange, TableColumns, snapshot_row
from barnabas.connect.sources.postgres.database import (
    connect,
    describe_table,
    explained,
    one,
    primary_keys,
    types_of,
)
from barnabas.connect.sources.postgres.slot import END
from barnabas.connect.sources.postgres.tables import PublishedTable
from barnabas.spark import SourceError

if TYPE_CHECKING:
    from psycopg import sql

    from barnabas.connect.sources.postgres.database import Connection

BLOCKS = 8192  # per part: 64 MiB with PostgreSQL's default block size
BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


@dataclass(frozen=True)
class DatabaseSnapshot:
    name: str
    lsn: int
    micros: int


@dataclass(frozen=True)
class TablePart:
    """A range of a table's blocks; without a range, the whole table."""

    snapshot: DatabaseSnapshot
    table: PublishedTable
    first: int | None = None
    until: int | None = None


class HeldSnapshot:
    """A snapshot and the connection that holds it: other sessions can import it until `close`."""

    def __init__(self, connection: Connection, snapshot: DatabaseSnapshot) -> None:
        self._connection = connection
        self.snapshot = snapshot

    def is_held(self) -> bool:
        return not self._connection.closed and not self._connection.broken

    def close(self) -> None:
        self._connection.close()

    @classmethod
    def exported(cls, replication: Connection, name: str, lsn: int) -> HeldSnapshot:
        return cls(replication, DatabaseSnapshot(name, lsn, time.time_ns() // 1000))

    @classmethod
    def taken(cls, connection: Connection) -> HeldSnapshot:
        """Take and export a new snapshot."""
        with explained("cannot take a snapshot"):
            connection.execute(BEGIN)
            (lsn,) = one(connection, END)
            (name,) = one(connection, "SELECT pg_catalog.pg_export_snapshot()")
        return cls(connection, DatabaseSnapshot(name, lsn, time.time_ns() // 1000))


def parts_of(snapshot: DatabaseSnapshot, tables: Sequence[PublishedTable]) -> list[TablePart]:
    return [part for table in tables for part in _parts(snapshot, table)]


def _parts(snapshot: DatabaseSnapshot, table: PublishedTable) -> Iterator[TablePart]:
    if table.kind != "r" or table.blocks <= BLOCKS:
        yield TablePart(snapshot, table)
        return
    edges = [
        *range(0, table.blocks, BLOCKS),
        None,
    ]  # the last part has no end: the table may have grown since
    for first, until in pairwise(edges):
        yield TablePart(snapshot, table, first, until)


def read_part(url: str, password: str | None, part: TablePart) -> Iterator[RowChange]:
    table, snapshot = part.table, part.snapshot
    with connect(url, password) as connection:
        _enter(connection, snapshot)
        relation = describe_table(connection, table.relation_id, table.schema, table.name, table.columns)
        keys = primary_keys(connection).get(table.relation_id)
        columns = TableColumns.of(relation, types_of(connection), keys)
        with (
            explained(
                f"cannot read table {table.text}: the user needs SELECT on it, and USAGE on its schema"
            ),
            connection.cursor() as cursor,
            cursor.copy(_query(part, columns.names)) as copy,
        ):
            for row in copy.rows():
                yield snapshot_row(columns, row, snapshot.lsn, snapshot.micros)


def _enter(connection: Connection, snapshot: DatabaseSnapshot) -> None:
    import psycopg
    from psycopg import sql

    connection.execute(BEGIN)
    try:
        connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot.name)))
    except psycopg.Error as error:
        raise SourceError(
            "the snapshot has ended before all of it was read, because the connection that held it was lost: start the "
            "connector again, and the tables are read again"
        ) from error


def _query(part: TablePart, names: Sequence[str]) -> sql.Composed:
    from psycopg import sql

    only = sql.SQL("ONLY " if part.table.kind == "r" else "")  # a partitioned table includes its partitions
    query = sql.SQL("SELECT {} FROM {}{}").format(
        sql.SQL(", ").join(map(sql.Identifier, names)),
        only,
        sql.Identifier(part.table.schema, part.table.name),
    )
    conditions = [sql.SQL("({})").format(sql.SQL(part.table.condition))] if part.table.condition else []
    if part.first is not None:
        conditions.append(sql.SQL("ctid >= {}::tid").format(sql.Literal(f"({part.first},0)")))
    if part.until is not None:
        conditions.append(sql.SQL("ctid < {}::tid").format(sql.Literal(f"({part.until},0)")))
    if conditions:
        query += sql.SQL(" WHERE ") + sql.SQL(" AND ").join(conditions)
    return sql.SQL("COPY ({}) TO STDOUT").format(query)
