"""Stored log lines, and the read positions of their topics, which are persisted together.

New lines (`add`) can be searched immediately. When there are enough of them, or after a while, they are written to a
file. After a crash, lines not yet in a file are read from the topics again. The oldest files are deleted when the store
exceeds its size limit or when their newest line is too old.
"""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self, TextIO

import msgspec
import pyarrow as pa

from barnabas.common.files import private_opener
from barnabas.common.safe_logging import safe_logger
from barnabas.services.console.logs.chunks import (
    SUFFIX,
    UNFINISHED,
    DamagedChunkError,
    LogChunk,
    Positions,
    TopicPositions,
    chunk_of,
    read_chunk,
    write_chunk,
)
from barnabas.services.console.logs.columns import together

CHUNK_ROWS = 65_536
CHUNK_BYTES = 16 * 1024 * 1024
"""Limit of lines in memory, which are read again after a crash; a chunk is searched in a few milliseconds."""
CHUNK_SECONDS = 300.0
HOUR = 3600
OWNER_ONLY = 0o700
"""Other users of the machine may not be allowed to read the topics."""

_logger = safe_logger(__name__)


class LogStoreSettings(msgspec.Struct, frozen=True):
    most_bytes: int = 4 * 1024**3
    """About twice the size of ten million lines of 150 bytes."""
    keep_seconds: float = 24 * 3600.0
    chunk_rows: int = CHUNK_ROWS


class InUseError(Exception):
    """Another process writes to the same folder."""


class LogStore:
    """Owned by one task; any thread may read `chunks`, an immutable tuple."""

    def __init__(
        self, folder: Path, settings: LogStoreSettings | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.folder = folder
        self.settings = settings or LogStoreSettings()
        self._clock = clock
        folder.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        self._lock = _locked(folder)
        self._flushing = threading.Lock()
        self._files, self.positions = _recover(folder)
        self._tail: list[LogChunk] = []
        self._tail_since = 0.0
        self._next_row = self._files[-1].end_row if self._files else 0
        self.chunks: tuple[LogChunk, ...] = tuple(self._files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close without flushing: lines in memory are read from the topics again, unless `flush` was called."""
        self.chunks, self._files, self._tail = (), [], []
        self._lock.close()

    @property
    def rows(self) -> int:
        return sum(chunk.rows.num_rows for chunk in self.chunks)

    @property
    def bytes(self) -> int:
        return sum(chunk.size or chunk.rows.nbytes for chunk in self.chunks)

    def begin(self, topic: str, topic_id: str, partition: int, offset: int) -> None:
        """Set the position of a partition to `offset`; earlier lines were added or are not needed."""
        known = self.positions.get(topic)
        if known is None or known.id != topic_id:
            known = self.positions[topic] = TopicPositions(topic_id, {})
        known.next[partition] = offset

    def add(self, topic: str, topic_id: str, partition: int, rows: pa.RecordBatch) -> None:
        """Add lines of a partition, in offset order."""
        if not rows.num_rows:
            return
        if not self._tail:
            self._tail_since = self._clock()
        self._tail.append(chunk_of(rows, self._next_row))
        self._next_row += rows.num_rows
        self.begin(topic, topic_id, partition, rows.column("offset")[-1].as_py() + 1)
        _merge_small(self._tail)
        self._publish()

    @property
    def is_due(self) -> bool:
        """True if `flush` should be called."""
        if not self._tail:
            return False
        now = self._clock()
        return (
            self._next_row - self._tail[0].first_row >= self.settings.chunk_rows
            or sum(chunk.rows.nbytes for chunk in self._tail) >= CHUNK_BYTES
            or now - self._tail_since >= CHUNK_SECONDS
            or int(now) // HOUR != int(self._tail_since) // HOUR
        )

    def flush(self) -> None:
        """Write the lines in memory to a file. Blocks on the disk: call it in a thread, without concurrent `add`.

        A caller that was cancelled while the thread runs may flush again, and waits until the first flush is done.
        """
        with self._flushing:
            if self._tail:
                merged = chunk_of(together([chunk.rows for chunk in self._tail]), self._tail[0].first_row)
                self._files.append(write_chunk(self.folder, merged, self.positions, self._clock()))
                self._tail = []
            self._expire()

    def expire(self) -> None:
        """Delete expired files, except the newest, which holds the read positions."""
        with self._flushing:
            self._expire()

    def _expire(self) -> None:
        oldest = (self._clock() - self.settings.keep_seconds) * 1000
        kept, size = [], 0
        for number, chunk in enumerate(reversed(self._files)):
            size += chunk.size
            if number and (chunk.latest < oldest or size > self.settings.most_bytes):
                assert chunk.path is not None
                chunk.path.unlink(missing_ok=True)
            else:
                kept.append(chunk)
        self._files = kept[::-1]
        self._publish()

    def _publish(self) -> None:
        self.chunks = (*self._files, *self._tail)


def _merge_small(tail: list[LogChunk]) -> None:
    """Merge like a binary counter: few chunks remain, and each row is copied only a few times."""
    while len(tail) > 1 and tail[-2].rows.num_rows <= 2 * tail[-1].rows.num_rows:
        last = tail.pop()
        before = tail.pop()
        rows = together([before.rows, last.rows])
        times = min(before.earliest, last.earliest), max(before.latest, last.latest)
        tail.append(LogChunk(rows, before.first_row, *times))


def _locked(folder: Path) -> TextIO:
    lock = open(folder / "lock", "w", opener=private_opener)  # noqa: SIM115 (closed with the store)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise InUseError(
            f"{folder} is used by another console: give each its own folder, or stop the other"
        ) from None
    return lock


def _recover(folder: Path) -> tuple[list[LogChunk], Positions]:
    """Load files up to the first damaged one. Later files are deleted: their positions are beyond its lost lines."""
    for path in folder.glob(f"*{UNFINISHED}"):
        path.unlink()
    chunks: list[LogChunk] = []
    positions: Positions = {}
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    for number, path in enumerate(paths):
        try:
            chunk, positions = read_chunk(path)
        except DamagedChunkError as error:
            _logger.warning("%s; its lines and those behind it are read from the topics again", error)
            for each in paths[number:]:
                each.unlink()
            break
        chunks.append(chunk)
    return chunks, positions
