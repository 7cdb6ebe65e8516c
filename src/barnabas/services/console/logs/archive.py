"""Log lines of one cluster: stored, searched, and shown in context."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from barnabas.client import Client
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition
from barnabas.services.console.logs.chunks import LogChunk
from barnabas.services.console.logs.columns import LEVELS, LogLine, Longs, codes_of, line_at, milliseconds
from barnabas.services.console.logs.lines import LEVEL_TOPIC
from barnabas.services.console.logs.query import Cursor, LineFilter
from barnabas.services.console.logs.search import Buckets, LogScan, Mask, SearchStop
from barnabas.services.console.logs.service import LogTopics
from barnabas.services.console.logs.store import LogStore, LogStoreSettings
from barnabas.services.console.logs.tailer import Tailer, TailerStatus

# -- Context of a log line: the lines before and after it from the same file or program ----------------


class Surroundings(msgspec.Struct):
    before: list[LogLine]
    line: LogLine
    after: list[LogLine]


class _Neighbour(NamedTuple):
    order: int
    row: int
    chunk: LogChunk
    at: int

    def line(self) -> LogLine:
        return line_at(self.chunk.rows, self.at, self.row)


def surroundings_of(
    chunks: Sequence[LogChunk], tp: TopicPartition, offset: int, around: int
) -> Surroundings | None:
    """Lines of the partition around an offset, in offset order. Entries of the template `logs`, which writes one topic
    per level, are merged by time."""
    anchor = _find(chunks, tp, offset)
    if anchor is None:
        return None
    line = anchor.line()
    before: list[_Neighbour] = []
    after: list[_Neighbour] = []
    for chunk in chunks:
        found = _neighbours(chunk, line)
        before += found.below(anchor, around)
        after += found.above(anchor, around)
    before = sorted(before, key=lambda each: each[:2])[-around:]
    after = sorted(after, key=lambda each: each[:2])[:around]
    return Surroundings([each.line() for each in before], line, [each.line() for each in after])


class _Neighbours(NamedTuple):
    chunk: LogChunk
    indexes: Longs
    orders: Longs

    def below(self, anchor: _Neighbour, limit: int) -> list[_Neighbour]:
        return self._some(self._before(anchor), -limit)

    def above(self, anchor: _Neighbour, limit: int) -> list[_Neighbour]:
        rows = self.indexes + self.chunk.first_row
        return self._some(~self._before(anchor) & (rows != anchor.row), limit)

    def _before(self, anchor: _Neighbour) -> Mask:
        rows = self.indexes + self.chunk.first_row
        return np.asarray(
            (self.orders < anchor.order) | ((self.orders == anchor.order) & (rows < anchor.row))
        )

    def _some(self, mask: Mask, limit: int) -> list[_Neighbour]:
        chosen = np.flatnonzero(mask)
        nearest = chosen[np.lexsort((self.indexes[chosen], self.orders[chosen]))]
        taken: Iterable[int] = (nearest[limit:] if limit < 0 else nearest[:limit]).tolist()
        return [self._at(each) for each in taken]

    def _at(self, number: int) -> _Neighbour:
        index = int(self.indexes[number])
        return _Neighbour(int(self.orders[number]), self.chunk.first_row + index, self.chunk, index)


def _find(chunks: Sequence[LogChunk], tp: TopicPartition, offset: int) -> _Neighbour | None:
    for chunk in reversed(chunks):
        mask = _is(chunk.rows, "topic", tp.topic) & _at_partition(chunk.rows, tp.partition)
        found = np.flatnonzero(mask & (_offsets(chunk.rows) == offset))
        if len(found):
            index = int(found[-1])
            order = int(_orders(chunk.rows, tp.topic)[index])
            return _Neighbour(order, chunk.first_row + index, chunk, index)
    return None


def _neighbours(chunk: LogChunk, line: LogLine) -> _Neighbours:
    rows = chunk.rows
    mask = _is(rows, "source", line.source)
    if mask.any():
        if LEVEL_TOPIC.fullmatch(line.topic):
            mask &= _is_level_topic(rows)
        else:
            mask &= _is(rows, "topic", line.topic) & _at_partition(rows, line.partition)
    indexes = np.flatnonzero(mask)
    return _Neighbours(chunk, indexes, _orders(rows, line.topic)[indexes])


def _orders(rows: pa.RecordBatch, topic: str) -> Longs:
    return milliseconds(rows.column("time")) if LEVEL_TOPIC.fullmatch(topic) else _offsets(rows)


def _offsets(rows: pa.RecordBatch) -> Longs:
    found: Longs = rows.column("offset").to_numpy(zero_copy_only=True)
    return found


def _at_partition(rows: pa.RecordBatch, partition: int) -> Mask:
    return np.asarray(rows.column("partition").to_numpy(zero_copy_only=True) == partition)


def _is(rows: pa.RecordBatch, column: str, value: str) -> Mask:
    found = rows.column(column)
    wanted = np.array([each == value for each in found.dictionary.to_pylist()], np.bool_)
    return np.asarray(wanted[codes_of(found)])


def _is_level_topic(rows: pa.RecordBatch) -> Mask:
    found = rows.column("topic")
    wanted = np.array([bool(LEVEL_TOPIC.fullmatch(each)) for each in found.dictionary.to_pylist()], np.bool_)
    return np.asarray(wanted[codes_of(found)])


BUDGET_SECONDS = 10.0
"""Time limit of a search; after that, partial results are returned."""
MAX_THREADS = 4
MAX_BUCKETS = 60
MAX_FACETS = 20
WIDTHS_MS = tuple(
    seconds * 1000
    for seconds in (
        1,
        2,
        5,
        10,
        30,
        60,
        120,
        300,
        600,
        1800,
        3600,
        7200,
        21_600,
        86_400,
        7 * 86_400,
        30 * 86_400,
    )
)
"""Widths of histogram bars, in round units of time."""

T = TypeVar("T")

_logger = safe_logger(__name__)


class Bar(msgspec.Struct):
    start: int
    counts: dict[str, int]
    """Lines by level; levels without lines are omitted."""
    total: int


class Facet(msgspec.Struct):
    value: str
    count: int


class LogSearchResult(msgspec.Struct):
    lines: list[LogLine]
    """Newest first."""
    matched: int
    scanned: int
    total: int
    """Number of stored lines."""
    complete: bool
    """False if the search timed out."""
    seconds: float
    bars: list[Bar]
    width: int
    """Width of a bar in milliseconds."""
    facets: dict[str, list[Facet]]
    older: str
    """Cursor of the next page; empty on the last page."""


class LogArchive:
    """`run` reads topics on the console's loop; searches run in separate threads."""

    def __init__(
        self,
        client: Client,
        folder: Path,
        topics: LogTopics,
        settings: LogStoreSettings | None = None,
        budget: float = BUDGET_SECONDS,
    ) -> None:
        self.store = LogStore(folder, settings)
        self.tailer = Tailer(client, self.store, topics)
        self._budget = budget
        self._threads = max(1, min(MAX_THREADS, os.cpu_count() or 1))
        self._pool = ThreadPoolExecutor(self._threads, "logs")

    @property
    def status(self) -> TailerStatus:
        return self.tailer.status

    @property
    def kept_topics(self) -> set[str]:
        """Topics with stored lines, including topics that are no longer read."""
        return {*self.store.positions, *self.status.topics}

    async def run(self) -> None:
        """Read until cancelled; then write the lines in memory to a file."""
        try:
            await self.tailer.run()
        finally:
            self._flush_at_the_end()

    def _flush_at_the_end(self) -> None:
        """Flush; lines that cannot be written are read from the topics again."""
        try:
            self.store.flush()
        except OSError as error:
            _logger.warning("log lines in memory are not written: %s", error)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        self.store.close()

    async def search(
        self, wanted: LineFilter, limit: int = 100, cursor: Cursor | None = None
    ) -> LogSearchResult:
        """Cancelling the caller cancels the search."""
        started = time.monotonic()
        chunks = self.store.chunks
        buckets = buckets_of(chunks, wanted)
        stop = SearchStop(self._budget)
        scan = LogScan(chunks, wanted, buckets, limit, stop, cursor)
        await self._in_threads([scan.work] * self._threads, stop)
        return _found(scan, buckets, chunks, limit, time.monotonic() - started)

    async def surroundings(self, tp: TopicPartition, offset: int, around: int) -> Surroundings | None:
        """None if the line is not stored."""
        chunks, stop = self.store.chunks, SearchStop(self._budget)
        (found,) = await self._in_threads([lambda: surroundings_of(chunks, tp, offset, around)], stop)
        return found

    async def _in_threads(self, work: list[Callable[[], T]], stop: SearchStop) -> list[T]:
        loop = asyncio.get_running_loop()
        try:
            return await asyncio.gather(*(loop.run_in_executor(self._pool, each) for each in work))
        finally:
            stop.tell()


def buckets_of(chunks: Iterable[LogChunk], wanted: LineFilter) -> Buckets:
    """Buckets of a round width over the requested time range, or over that of the stored lines."""
    known = [chunk for chunk in chunks if chunk.rows.num_rows]
    earliest = min((chunk.earliest for chunk in known), default=0)
    latest = max((chunk.latest + 1 for chunk in known), default=1)
    since = earliest if wanted.since is None else wanted.since
    until = max(since + 1, latest if wanted.until is None else wanted.until)
    width = next((each for each in WIDTHS_MS if (until - since) / each < MAX_BUCKETS - 1), 0)
    width = width or (until - since) // (MAX_BUCKETS - 1) + 1
    start = since // width * width
    return Buckets(start, width, (until - 1 - start) // width + 1)


def _found(
    scan: LogScan, buckets: Buckets, chunks: Iterable[LogChunk], limit: int, seconds: float
) -> LogSearchResult:
    tally = scan.result()
    oldest = tally.matches[-1] if tally.matches else None
    return LogSearchResult(
        lines=[line_at(match.chunk.rows, match.at, match.row) for match in tally.matches],
        matched=tally.matched,
        scanned=tally.scanned,
        total=sum(chunk.rows.num_rows for chunk in chunks),
        complete=scan.is_complete,
        seconds=round(seconds, 3),
        bars=[
            Bar(
                buckets.start + number * buckets.width,
                {level: count for level, count in zip(LEVELS, counts, strict=True) if count},
                sum(counts),
            )
            for number, counts in enumerate(tally.bars.tolist())
        ],
        width=buckets.width,
        facets={
            name: [Facet(value, count) for value, count in counts.most_common(MAX_FACETS)]
            for name, counts in tally.facets.items()
        },
        older=str(Cursor(oldest.time, oldest.row)) if oldest is not None and tally.beyond > limit else "",
    )
