"""The replication slot: PostgreSQL retains the WAL after its position, and repeats it until the position advances.

Positions are the ends of commits. A repeated peek shows the same changes; only `advance` lets the server recycle WAL.
A slot is never recreated while a position is stored: the changes in between would be lost silently.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.connect.sources.postgres.database import connect, explained
from barnabas.spark import SourceError

if TYPE_CHECKING:
    from psycopg import sql

    from barnabas.connect.sources.postgres.database import Connection

BUSY_SECONDS = 60.0
BUSY_PAUSE = 0.2

STATE = """
SELECT plugin, database, pg_catalog.pg_wal_lsn_diff(confirmed_flush_lsn, '0/0')::int8, wal_status, active_pid
FROM pg_catalog.pg_replication_slots WHERE slot_name = %s
"""
END = "SELECT pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_flush_lsn(), '0/0')::int8"
CHANGES = (
    "pg_catalog.pg_logical_slot_peek_binary_changes({slot}, {until}, {most}, 'proto_version', '1', "
    "'publication_names', {publication})"
)
COMMITS = (  # number of messages, and the highest commit end among them
    "SELECT count(*), max(encode(substring(data FROM 11 FOR 8), 'hex') COLLATE \"C\") FILTER (WHERE "
    "get_byte(data, 0) = 67) "
    "FROM "
)


def lsn_text(lsn: int) -> str:
    """Format an LSN as PostgreSQL does."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


@dataclass(frozen=True)
class ReplicationSlot:
    name: str
    publication: str


class SlotState(NamedTuple):
    plugin: str
    database: str
    confirmed: int
    wal_status: str | None
    active_pid: int | None


class System(NamedTuple):
    """System identifier and timeline of a server."""

    identifier: str
    timeline: int


class Peeked(NamedTuple):
    messages: int
    end: int | None
    """End of the last commit."""


def state_of(connection: Connection, slot: ReplicationSlot) -> SlotState | None:
    row = connection.execute(STATE, (slot.name,)).fetchone()
    return None if row is None else SlotState(*row)


def flushed(connection: Connection) -> int:
    (found,) = connection.execute(END).fetchone() or (0,)
    return int(found)


def create(replication: Connection, slot: ReplicationSlot) -> tuple[int, str]:
    """Create the slot; return its first position and the name of its snapshot, which ends with the connection."""
    from psycopg import sql

    statement = sql.SQL("CREATE_REPLICATION_SLOT {} LOGICAL pgoutput (SNAPSHOT 'export')")
    with explained(
        f"cannot create slot {slot.name}: the server needs wal_level = logical and free max_replication_slots, "
        "the user the REPLICATION attribute"
    ):
        row = replication.execute(statement.format(sql.Identifier(slot.name))).fetchone()
    assert row is not None
    return parse_lsn(row[1]), row[2]


def identify(replication: Connection) -> System:
    with explained("cannot identify the server: the user needs the REPLICATION attribute"):
        row = replication.execute("IDENTIFY_SYSTEM").fetchone()
    assert row is not None
    return System(str(row[0]), int(row[1]))


def left_at(history: str, timeline: int) -> int | None:
    """Return the LSN at which the server left a timeline, from its history file; None if it was never on it."""
    for line in history.splitlines():
        words = line.split()
        if words and words[0] == str(timeline):
            return parse_lsn(words[1])
    return None


def check_system(url: str, password: str | None, known: System, position: int) -> System:
    """Check that the server is the same one and that its timeline still contains `position`."""
    with connect(url, password, replication=True) as replication:
        now = identify(replication)
        if now.identifier != known.identifier:
            raise SourceError(
                f"this is another server (system {now.identifier}, not {known.identifier}): set `url` to the "
                "previous one, or start over with another `slot` and an empty topic"
            )
        if now.timeline == known.timeline:
            return now
        row = replication.execute(f"TIMELINE_HISTORY {now.timeline}").fetchone()
        left = None if row is None else left_at(_text(row[1]), known.timeline)
    if left is None or left < position:
        raise SourceError(
            f"the server was restored or a standby was promoted (timeline {known.timeline} to {now.timeline}) "
            f"without all changes read up to {lsn_text(position)}: the topic has changes that the database lacks. "
            "Compare them, "
            "then start over with another `slot` and an empty topic"
        )
    return now


def _text(value: Any) -> str:
    return bytes(value).decode() if isinstance(value, bytes | memoryview) else str(value)


def check_state(
    state: SlotState | None, slot: ReplicationSlot, position: int | None, database: str
) -> SlotState:
    """Raise SourceError unless everything after `position` can still be read."""
    where = "" if position is None else f" Changes after {lsn_text(position)} may be missing."
    over = " Start over: a new `slot`, a new `storage` and an empty topic, so that the tables are read again as a whole"
    if state is None:
        raise SourceError(f"slot {slot.name} no longer exists: it was dropped.{where}{over}")
    if (state.plugin, state.database) != ("pgoutput", database):
        raise SourceError(
            f"slot {slot.name} has another owner (plugin {state.plugin}, database {state.database}): set another "
            "`slot` for this connector"
        )
    if state.wal_status == "lost":
        raise SourceError(
            f"slot {slot.name} is lost: the server removed its WAL "
            f"(max_slot_wal_keep_size).{where}{over}, and "
            "raise that limit"
        )
    if position is not None and state.confirmed > position:
        raise SourceError(
            f"slot {slot.name} is at {lsn_text(state.confirmed)}, ahead of this connector, which has read up to "
            f"{lsn_text(position)}: the slot was dropped and created again, or another client reads from "
            f"it.{where}{over}; if two "
            "connectors share the slot, use one slot each"
        )
    return state


def peek(connection: Connection, slot: ReplicationSlot, until: int, limit: int) -> Peeked:
    """Peek at the next `limit` messages, rounded up to the end of a transaction; `until` is the end of the WAL."""
    from psycopg import sql

    query = sql.SQL(COMMITS) + _changes(slot, until, limit)
    with held(connection, slot):
        messages, end = connection.execute(query).fetchone() or (0, None)
    return Peeked(messages, None if end is None else int(end, 16))


def read(connection: Connection, slot: ReplicationSlot, until: int) -> Iterator[bytes]:
    """Stream all messages up to a position, without buffering them on either side."""
    from psycopg import sql

    changes = _changes(slot, until, None)
    statement = sql.SQL("COPY (SELECT data FROM {}) TO STDOUT (FORMAT binary)").format(changes)
    with held(connection, slot), connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(["bytea"])
        for (data,) in copy.rows():
            yield data


def advance(connection: Connection, slot: ReplicationSlot, position: int) -> None:
    """Allow the server to recycle the WAL before `position`."""
    with held(connection, slot):
        state = state_of(connection, slot)
        if state is not None and state.confirmed < position:
            connection.execute(
                "SELECT pg_catalog.pg_replication_slot_advance(%s, %s::pg_lsn)",
                (slot.name, lsn_text(position)),
            )


def wait_until_free(connection: Connection, slot: ReplicationSlot, seconds: float = BUSY_SECONDS) -> None:
    """Wait until the slot is inactive: the server releases the slot of a killed reader with a delay."""
    deadline = time.monotonic() + seconds
    while True:
        state = state_of(connection, slot)
        if state is None or state.active_pid is None:
            return
        if time.monotonic() > deadline:
            raise _busy(slot, f"process {state.active_pid} of the server")
        time.sleep(BUSY_PAUSE)


@contextmanager
def held(connection: Connection, slot: ReplicationSlot) -> Iterator[None]:
    from psycopg import errors

    wait_until_free(connection, slot)
    try:
        with explained(f"slot {slot.name} cannot be read"):
            yield
    except SourceError as error:
        if isinstance(error.__cause__, errors.ObjectInUse):
            raise _busy(slot, "another reader") from error
        raise


def _busy(slot: ReplicationSlot, by: str) -> SourceError:
    return SourceError(
        f"slot {slot.name} is used by {by}: only one connector can read it. Stop the other one, or give each "
        "its own `slot`"
    )


def _changes(slot: ReplicationSlot, until: int, limit: int | None) -> sql.Composed:
    from psycopg import sql

    return sql.SQL(CHANGES).format(
        slot=sql.Literal(slot.name),
        until=sql.Literal(lsn_text(until)),
        most=sql.Literal(limit),
        publication=sql.Literal('"' + slot.publication.replace('"', '""') + '"'),
    )
