"""Converts decoded messages to rows of changes, filtered by commit position. No I/O.

A row is an envelope like Debezium's: `op` is r (snapshot read), c, u, d or t (truncate), `before` and `after` are the
row as JSON. An update of the key becomes a `d` of the old key and a `c` of the new one, so that the last change of a
key determines whether the row exists. (lsn, seq) is unique and orders all changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from barnabas.connect.sources.postgres.decoding import (
    UNCHANGED,
    Begin,
    CommitMessage,
    DecodingError,
    DeleteMessage,
    Insert,
    Message,
    Relation,
    Truncate,
    Update,
    Value,
)
from barnabas.connect.sources.postgres.values import Converter, Types, converter
from barnabas.spark import SourceError


class RowChange(NamedTuple):
    """One row of the source; field names are its column names."""

    key: bytes | None
    """JSON, like the other bytes fields."""
    before: bytes | None
    after: bytes | None
    op: str
    schema: str
    table: str
    lsn: int
    """LSN of the commit; for a snapshot row, LSN of the snapshot."""
    xid: int | None
    seq: int
    """Sequence number within the transaction."""
    time: int
    unchanged: list[str] | None
    """Columns missing in `after`: large values that did not change (TOAST)."""


@dataclass(frozen=True)
class TableColumns:
    """Columns of a table, with converters of their values to JSON."""

    schema: str
    name: str
    names: Sequence[str]
    converters: Sequence[Converter]
    keys: Sequence[int]
    """Indexes of the key columns; empty without a key."""

    @classmethod
    def of(cls, relation: Relation, types: Types, primary_key: Sequence[str] | None) -> TableColumns:
        """Create from a relation message. The key is the replica identity, which deletions carry; with replica identity
        FULL, the current primary key."""
        names = [column.name for column in relation.columns]
        identity = [index for index, one in enumerate(relation.columns) if one.is_key]
        if relation.identity == "f":
            keys = [names.index(name) for name in primary_key or () if name in names]
        else:
            keys = sorted(identity, key=lambda at: _rank(names[at], primary_key))
        converters = [converter(types, column.type_id) for column in relation.columns]
        return cls(relation.schema, relation.name, names, converters, keys)

    def json(self, row: Sequence[Value], indexes: Sequence[int] | None = None) -> bytes:
        """Encode the columns at `indexes`, without unchanged values."""
        chosen = range(len(self.names)) if indexes is None else indexes
        return _encode(
            {self.names[at]: self._value(at, row[at]) for at in chosen if row[at] is not UNCHANGED}
        )

    def key(self, row: Sequence[Value]) -> bytes | None:
        return self.json(row, self.keys) if self.keys else None

    def _value(self, at: int, value: Value) -> Any:
        if value is None:
            return None
        if not isinstance(value, str):
            raise DecodingError(f"unexpected binary value of {self.names[at]}")
        try:
            return self.converters[at](value)
        except ValueError as error:
            raise SourceError(
                f"column {self.names[at]} of {self.schema}.{self.name}: {value[:100]!r} does not fit its type"
            ) from error


def _rank(name: str, primary_key: Sequence[str] | None) -> int:
    return primary_key.index(name) if primary_key and name in primary_key else 0


_encode = msgspec.json.Encoder().encode


class ChangeRows:
    """Converts the messages of transactions whose commits are in [start, end), in order."""

    def __init__(
        self,
        start: int,
        end: int,
        types: Types,
        primary_keys: Mapping[int, Sequence[str]],
        predicate: Callable[[str, str], bool],
    ) -> None:
        self._start, self._end = start, end
        self._types, self._primary_keys, self._wanted = types, primary_keys, predicate
        self._tables: dict[int, TableColumns | None] = {}
        self._begin: Begin | None = None
        self._seq = 0

    def rows(self, message: Message | None) -> Iterator[RowChange]:
        if isinstance(message, Relation):
            self._tables[message.relation_id] = self._table(message)
        elif isinstance(message, Begin):
            self._begin, self._seq = message, 0
        elif isinstance(message, CommitMessage):
            self._begin = None
        elif isinstance(message, (Insert, Update, DeleteMessage)):
            if self._is_wanted():
                yield from self._changes(message)
        elif isinstance(message, Truncate) and self._is_wanted():
            for relation_id in message.relation_ids:
                table = self._find(relation_id)
                if table is not None:
                    yield self._row(table, "t", None)

    def _is_wanted(self) -> bool:
        if self._begin is None:
            raise DecodingError("a change outside of a transaction")
        return self._start <= self._begin.commit_lsn < self._end

    def _table(self, relation: Relation) -> TableColumns | None:
        if not self._wanted(relation.schema, relation.name):
            return None
        return TableColumns.of(relation, self._types, self._primary_keys.get(relation.relation_id))

    def _find(self, relation_id: int) -> TableColumns | None:
        if relation_id not in self._tables:
            raise DecodingError(f"a change of table {relation_id} without a preceding Relation message")
        return self._tables[relation_id]

    def _changes(self, change: Insert | Update | DeleteMessage) -> Iterator[RowChange]:
        table = self._find(change.relation_id)
        if table is None:
            return
        if isinstance(change, Insert):
            yield self._row(table, "c", table.key(change.new), after=table.json(change.new))
        elif isinstance(change, DeleteMessage):
            yield self._deletion(table, change.old, is_whole=change.is_whole)
        else:
            yield from self._update(table, change)

    def _update(self, table: TableColumns, change: Update) -> Iterator[RowChange]:
        new, old = change.new, change.old
        if old is not None:
            # Unchanged values are in the old row if the table logs full rows, or if they are part of the key.
            known = (
                old
                if change.is_whole
                else [old[at] if at in table.keys else UNCHANGED for at in range(len(new))]
            )
            new = [was if value is UNCHANGED else value for value, was in zip(new, known, strict=True)]
        key = table.key(new)
        if old is not None and key is not None and table.key(old) != key:
            yield self._deletion(table, old, is_whole=change.is_whole)
            yield self._after(table, "c", key, new, None)
        else:
            before = table.json(old) if old is not None and change.is_whole else None
            yield self._after(table, "u", key, new, before)

    def _deletion(self, table: TableColumns, old: Sequence[Value], *, is_whole: bool) -> RowChange:
        return self._row(table, "d", table.key(old), before=table.json(old, None if is_whole else table.keys))

    def _after(
        self, table: TableColumns, op: str, key: bytes | None, new: Sequence[Value], before: bytes | None
    ) -> RowChange:
        missing = [table.names[at] for at, value in enumerate(new) if value is UNCHANGED]
        return self._row(table, op, key, before=before, after=table.json(new), unchanged=missing or None)

    def _row(
        self,
        table: TableColumns,
        op: str,
        key: bytes | None,
        *,
        before: bytes | None = None,
        after: bytes | None = None,
        unchanged: list[str] | None = None,
    ) -> RowChange:
        begin = self._begin
        assert begin is not None
        self._seq += 1
        position = (table.schema, table.name, begin.commit_lsn, begin.xid, self._seq, begin.micros)
        return RowChange(key, before, after, op, *position, unchanged)


def snapshot_row(table: TableColumns, row: Sequence[Value], lsn: int, micros: int) -> RowChange:
    return RowChange(
        table.key(row), None, table.json(row), "r", table.schema, table.name, lsn, None, 0, micros, None
    )
