"""Spark's stream reader: a stream of changes whose first micro-batch is the snapshot.

The driver runs one StreamReader per query in a separate process; tasks read. A micro-batch of changes is one task,
because only one process at a time can read a slot. Micro-batches are repeatable: the slot advances only after Spark has
committed the micro-batch.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from barnabas.connect.sources.postgres import slot as slots
from barnabas.connect.sources.postgres.changes import ChangeRows, RowChange
from barnabas.connect.sources.postgres.database import connect, primary_keys, types_of
from barnabas.connect.sources.postgres.decoding import decode
from barnabas.connect.sources.postgres.slot import Peeked, ReplicationSlot, System, lsn_text, parse_lsn
from barnabas.connect.sources.postgres.snapshot import HeldSnapshot, TablePart, parts_of, read_part
from barnabas.connect.sources.postgres.tables import Patterns, ensure_publication, published
from barnabas.spark import SourceError, begin_task

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.connect.sources.postgres.database import Connection


# -- Positions in Spark's checkpoint, and the size of the next micro-batch. No I/O ---------------------

QUIET_BYTES = 16 << 20
"""WAL without changes of our tables after which the position advances, so that the server can recycle it."""


NO_SYSTEM = System("", 0)


@dataclass(frozen=True)
class WalPosition:
    """Everything before `lsn` is read. None: nothing yet, not even the snapshot."""

    lsn: int | None = None
    system: System = NO_SYSTEM

    def to_json(self) -> dict[str, Any]:
        if self.lsn is None:
            return {"lsn": None}
        return {"lsn": lsn_text(self.lsn), "system": self.system.identifier, "timeline": self.system.timeline}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> WalPosition:
        if value["lsn"] is None:
            return cls()
        return cls(parse_lsn(value["lsn"]), System(value["system"], value["timeline"]))


class StreamEnd(NamedTuple):
    lsn: int
    is_empty: bool
    """True if no change of our tables precedes it."""


def next_end(
    start: int, flushed: int, limit: int, peek: Callable[[int], Peeked], *, is_quiet: bool
) -> StreamEnd | None:
    """Return the end of the next micro-batch: the end of a commit, or the end of the WAL after a long stretch without
    changes of our tables. None: nothing new.

    A peek begins at the slot's position, one micro-batch behind `start`. A peek that hits its limit without showing
    anything new is repeated with a higher limit.
    """
    while flushed > start:
        found = peek(limit)
        if found.end is not None and found.end > start:
            return StreamEnd(found.end, False)
        if found.messages < limit:
            return StreamEnd(flushed, True) if is_quiet or flushed - start >= QUIET_BYTES else None
        limit *= 4
    return None


log = logging.getLogger(__name__)

FORMAT = "barnabas-postgres"
SCHEMA = (
    "key STRING, before STRING, after STRING, op STRING, `schema` STRING, `table` STRING, lsn BIGINT, xid "
    "BIGINT, seq BIGINT, "
    "`time` TIMESTAMP, unchanged ARRAY<STRING>, number BIGINT"
)
ROWS = 10_000  # per Arrow batch
BYTES = 8 << 20


@dataclass(frozen=True)
class PostgresSettings:
    url: str
    password: str | None
    slot: ReplicationSlot
    patterns: Patterns
    max_changes: int
    heartbeat: float

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> PostgresSettings:
        return cls(
            options["url"],
            options.get("password"),
            ReplicationSlot(options["slot"], options["publication"]),
            Patterns(tuple(options["tables"].split(","))),
            int(options["maxchanges"]),
            float(options["heartbeat"]),
        )

    def connect(self, *, replication: bool = False) -> Connection:
        return connect(self.url, self.password, replication=replication)


class SnapshotTask(InputPartition):
    def __init__(self, part: TablePart) -> None:
        super().__init__(None)
        self.part = part


class ChangesTask(InputPartition):
    def __init__(self, start: int, end: int) -> None:
        super().__init__(None)
        self.start, self.end = start, end


class PostgresStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, settings: PostgresSettings) -> None:
        self._settings = settings
        self._connection: Connection | None = None
        self._snapshot: HeldSnapshot | None = None
        self._system: slots.System | None = None
        self._target: int | None = None
        self._empty_end: int | None = None
        self._moved = time.monotonic()

    def __getstate__(self) -> dict[str, Any]:
        """Pickle only the settings for tasks: connections stay in the driver."""
        return {"_settings": self._settings}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return WalPosition().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = slots.flushed(self._connect())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        begin = WalPosition.from_json(start)
        if begin.lsn is None:
            return self._first_position().to_json()
        system = self._check(begin)
        end = self._next_end(begin.lsn)
        if end is None:
            return start
        self._moved = time.monotonic()
        self._empty_end = end.lsn if end.is_empty else None
        return WalPosition(end.lsn, system).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        before, after = WalPosition.from_json(start), WalPosition.from_json(end)
        assert after.lsn is not None
        self._check(after if before.lsn is None else before)
        if before.lsn is None:
            return [SnapshotTask(part) for part in self._parts()]
        self._end_snapshot()
        return [] if after.lsn == self._empty_end else [ChangesTask(before.lsn, after.lsn)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        begin_task()
        if isinstance(partition, SnapshotTask):
            return arrow_batches(read_part(self._settings.url, self._settings.password, partition.part))
        if isinstance(partition, ChangesTask):
            return arrow_batches(read_changes(self._settings, partition.start, partition.end))
        return iter(())  # Spark starts one task even without partitions

    def commit(self, end: dict[str, Any]) -> None:
        """Advance the slot to the committed position, so that the server can recycle WAL. Never raises."""
        lsn = WalPosition.from_json(end).lsn
        try:
            if lsn is not None:
                slots.advance(self._connect(), self._settings.slot, lsn)
        except SourceError as error:
            log.warning("cannot advance the slot; retrying: %s", error)

    def stop(self) -> None:
        """Release the snapshot and the connection. After EOFError, exit: Spark's worker would report the error on the
        closed socket."""
        if isinstance(sys.exc_info()[1], EOFError):
            os._exit(0)
        self._end_snapshot()
        if self._connection is not None:
            self._connection.close()

    def _connect(self) -> Connection:
        if self._connection is None or self._connection.closed or self._connection.broken:
            self._connection, self._system = self._settings.connect(), None
        return self._connection

    def _first_position(self) -> WalPosition:
        """Create the slot before Spark stores its position. An existing slot was left by a start that failed in
        between, and can be reused: the snapshot is later than its position."""
        settings, connection = self._settings, self._connect()
        ensure_publication(connection, settings.slot.publication, settings.patterns)
        replication = settings.connect(replication=True)
        system = slots.identify(replication)
        state = slots.state_of(connection, settings.slot)
        if state is not None:
            replication.close()
            return WalPosition(
                slots.check_state(state, settings.slot, None, connection.info.dbname).confirmed, system
            )
        lsn, name = slots.create(replication, settings.slot)
        self._snapshot = HeldSnapshot.exported(replication, name, lsn)
        return WalPosition(lsn, system)

    def _parts(self) -> list[TablePart]:
        if self._snapshot is None or not self._snapshot.is_held():
            self._snapshot = HeldSnapshot.taken(self._settings.connect())
        tables = published(self._connect(), self._settings.slot.publication, self._settings.patterns)
        return parts_of(self._snapshot.snapshot, tables)

    def _end_snapshot(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None

    def _check(self, position: WalPosition) -> slots.System:
        """Check, before reading, that everything after the position is still available."""
        assert position.lsn is not None
        settings, connection = self._settings, self._connect()
        if self._system is None:
            ensure_publication(connection, settings.slot.publication, settings.patterns)
            self._system = slots.check_system(settings.url, settings.password, position.system, position.lsn)
        state = slots.state_of(connection, settings.slot)
        slots.check_state(state, settings.slot, position.lsn, connection.info.dbname)
        return self._system

    def _next_end(self, start: int) -> StreamEnd | None:
        settings, connection = self._settings, self._connect()
        flushed = slots.flushed(connection)
        if flushed < start:
            raise SourceError(
                f"the server's WAL ends at {slots.lsn_text(flushed)}, before the position {slots.lsn_text(start)}: "
                "it was restored from a backup. Start over with another `slot` and an empty topic"
            )
        if self._target is not None and start >= self._target:
            return None
        is_quiet = time.monotonic() - self._moved >= settings.heartbeat or self._target is not None

        def peek(limit: int) -> slots.Peeked:
            return slots.peek(connection, settings.slot, flushed, limit)

        return next_end(start, flushed, settings.max_changes, peek, is_quiet=is_quiet)


def read_changes(settings: PostgresSettings, start: int, end: int) -> Iterator[RowChange]:
    with settings.connect() as connection:
        changes = ChangeRows(
            start, end, types_of(connection), primary_keys(connection), settings.patterns.match
        )
        for data in slots.read(connection, settings.slot, end):
            yield from changes.rows(decode(data))


def arrow_batches(changes: Iterator[RowChange]) -> Iterator[pa.RecordBatch]:
    """Yield batches bounded in rows and bytes: memory does not grow with the size of a transaction."""
    numbers = count()
    while rows := list(_some(changes)):
        yield _batch(rows, list(islice(numbers, len(rows))))


def _some(changes: Iterator[RowChange]) -> Iterator[RowChange]:
    size = 0
    for change in islice(changes, ROWS):
        yield change
        size += len(change.after or b"") + len(change.before or b"")
        if size >= BYTES:
            return


def _batch(rows: list[RowChange], numbers: list[int]) -> pa.RecordBatch:
    import pyarrow as pa

    text = pa.string()
    columns = dict(zip(RowChange._fields, zip(*rows, strict=True), strict=True)) | {"number": numbers}
    kinds = {
        "lsn": pa.int64(),
        "xid": pa.int64(),
        "seq": pa.int64(),
        "time": pa.timestamp("us", "UTC"),
        "unchanged": pa.list_(text),
        "number": pa.int64(),
    }
    arrays = {
        name: pa.array(values, pa.binary()).cast(text)
        if name in ("key", "before", "after")
        else pa.array(values, kinds.get(name, text))
        for name, values in columns.items()
    }
    return pa.RecordBatch.from_pydict(arrays)
