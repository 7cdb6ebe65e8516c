"""Decodes messages of PostgreSQL's output plugin `pgoutput`, protocol version 1. No I/O.

Version 1 sends whole transactions in commit order: Begin, changes, Commit. Messages of later versions (streamed or
prepared transactions) are sent only on request, and are rejected here.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final, NamedTuple

from barnabas.spark import SourceError

EPOCH_MICROS = 946_684_800_000_000
"""PostgreSQL counts microseconds from 2000-01-01."""


class Unchanged:
    """A large value that the change did not modify: PostgreSQL does not log it again (TOAST)."""

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged()

Value = str | bytes | None | Unchanged
"""Text output of the type; bytes only if binary values were requested."""

Row = list[Value]


class Begin(NamedTuple):
    commit_lsn: int
    """LSN of the commit record."""
    micros: int
    xid: int


class CommitMessage(NamedTuple):
    commit_lsn: int
    end_lsn: int
    """End LSN of the transaction."""
    micros: int


class Column(NamedTuple):
    name: str
    type_id: int
    modifier: int
    is_key: bool
    """True for columns of the replica identity."""


class Relation(NamedTuple):
    """Definition of a table from here on; sent before its first change and after changes of its columns."""

    relation_id: int
    schema: str
    name: str
    identity: str
    """Replica identity. d: primary key, i: an index, f: all columns, n: nothing."""
    columns: tuple[Column, ...]


class Insert(NamedTuple):
    relation_id: int
    new: Row


class Update(NamedTuple):
    relation_id: int
    old: Row | None
    """All columns with replica identity FULL; otherwise only the key, and only if it changed."""
    is_whole: bool
    new: Row


class DeleteMessage(NamedTuple):
    relation_id: int
    old: Row
    is_whole: bool


class Truncate(NamedTuple):
    relation_ids: tuple[int, ...]


class Emitted(NamedTuple):
    """Message written with pg_logical_emit_message."""

    prefix: str
    content: bytes


Message = Begin | CommitMessage | Relation | Insert | Update | DeleteMessage | Truncate | Emitted

_BEGIN = Struct(">qqI")
_COMMIT = Struct(">Bqqq")
_INT16 = Struct(">H")
_INT32 = Struct(">I")
_COLUMN = Struct(">Ii")
_EMITTED = Struct(">Bq")
_LATER_VERSIONS = b"SEcAbPKrp"


class DecodingError(SourceError):
    """Malformed or unexpected pgoutput message."""


def decode(data: bytes) -> Message | None:
    """Return None for messages without row changes: origins and type names."""
    kind, reader = data[:1], _Reader(data, 1)
    try:
        if kind in (b"I", b"U", b"D"):
            return _change(kind, reader)
        if kind in (b"B", b"C"):
            return _boundary(kind, reader)
        if kind == b"R":
            return _relation(reader)
        if kind == b"T":
            return _truncate(reader)
        if kind == b"M":
            return _emitted(reader)
    except (error, IndexError, UnicodeDecodeError) as cause:
        raise DecodingError(
            f"a truncated or damaged message {kind.decode('latin-1')!r} from PostgreSQL"
        ) from cause
    if kind in (b"O", b"Y"):
        return None
    later = ", which belongs to a newer protocol version" if kind in _LATER_VERSIONS else ""
    raise DecodingError(f"PostgreSQL sent a message {kind.decode('latin-1')!r}{later}")


class _Reader:
    """Cursor over the bytes of a message."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def take(self, layout: Struct) -> tuple[int, ...]:
        values = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return values

    def letter(self) -> bytes:
        self.at += 1
        return self.data[self.at - 1 : self.at]

    def text(self) -> str:
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise IndexError
        found = self.data[self.at : end].decode()
        self.at = end + 1
        return found

    def sized(self) -> bytes:
        (size,) = self.take(_INT32)
        self.at += size
        if self.at > len(self.data):
            raise IndexError
        return self.data[self.at - size : self.at]

    def row(self) -> Row:
        (count,) = self.take(_INT16)
        return [self.value() for _ in range(count)]

    def value(self) -> Value:
        kind = self.letter()
        if kind == b"t":
            return self.sized().decode()
        if kind == b"n":
            return None
        if kind == b"u":
            return UNCHANGED
        if kind == b"b":
            return self.sized()
        raise IndexError


def _change(kind: bytes, reader: _Reader) -> Message:
    (relation_id,) = reader.take(_INT32)
    part = reader.letter()
    if kind == b"I" and part == b"N":
        return Insert(relation_id, reader.row())
    if kind == b"U" and part == b"N":
        return Update(relation_id, None, False, reader.row())
    if kind in (b"U", b"D") and part in (b"K", b"O"):
        old = reader.row()
        if kind == b"D":
            return DeleteMessage(relation_id, old, part == b"O")
        if reader.letter() == b"N":
            return Update(relation_id, old, part == b"O", reader.row())
    raise IndexError


def _boundary(kind: bytes, reader: _Reader) -> Message:
    if kind == b"B":
        commit_lsn, micros, xid = reader.take(_BEGIN)
        return Begin(commit_lsn, micros + EPOCH_MICROS, xid)
    _, commit_lsn, end_lsn, micros = reader.take(_COMMIT)
    return CommitMessage(commit_lsn, end_lsn, micros + EPOCH_MICROS)


def _relation(reader: _Reader) -> Relation:
    (relation_id,) = reader.take(_INT32)
    schema, name, identity = reader.text() or "pg_catalog", reader.text(), reader.letter().decode()
    (count,) = reader.take(_INT16)
    return Relation(relation_id, schema, name, identity, tuple(_column(reader) for _ in range(count)))


def _column(reader: _Reader) -> Column:
    is_key = reader.letter() == b"\x01"
    name = reader.text()
    type_id, modifier = reader.take(_COLUMN)
    return Column(name, type_id, modifier, is_key)


def _truncate(reader: _Reader) -> Truncate:
    (count,) = reader.take(_INT32)
    reader.letter()  # CASCADE, RESTART IDENTITY; cascaded tables are in the list
    return Truncate(tuple(reader.take(_INT32)[0] for _ in range(count)))


def _emitted(reader: _Reader) -> Emitted:
    reader.take(_EMITTED)
    return Emitted(reader.text(), reader.sized())
