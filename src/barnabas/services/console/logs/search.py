"""Searches all chunks with a few threads: the newest matching lines, their number, and a histogram.

Arrow and numpy release the interpreter's lock, so the console's loop is not blocked. A search ends early when it is
cancelled or times out; it then returns partial results.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.services.console.logs.chunks import LogChunk
from barnabas.services.console.logs.columns import LEVELS, Longs, codes_of, milliseconds
from barnabas.services.console.logs.query import FACETS, Cursor, LineFilter, Term

MAX_VALUES = 1000
"""Distinct values per name column and chunk; beyond that only the most frequent are counted."""
COPIED_SHARE = 0.3

Mask = npt.NDArray[np.bool_]


class Buckets(NamedTuple):
    """Buckets of a histogram, beginning at `start`; `width` in milliseconds."""

    start: int
    width: int
    number: int


class LineMatch(NamedTuple):
    """A matching line."""

    time: int
    row: int
    chunk: LogChunk
    at: int


class SearchStop:
    """Signals threads to stop: cancelled or timed out."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._told = threading.Event()

    def tell(self) -> None:
        self._told.set()

    @property
    def is_due(self) -> bool:
        return self._told.is_set() or time.monotonic() > self._deadline


class Tally:
    """Results of one thread, or of all threads merged."""

    def __init__(self, buckets: Buckets) -> None:
        self.matched = 0
        self.scanned = 0
        self.bars: Longs = np.zeros((buckets.number, len(LEVELS)), np.int64)
        self.facets: dict[str, Counter[str]] = {name: Counter() for name in FACETS}
        self.matches: list[LineMatch] = []
        self.beyond = 0
        """Matching lines older than the cursor."""

    def merge(self, other: Tally) -> None:
        self.matched += other.matched
        self.scanned += other.scanned
        self.beyond += other.beyond
        self.bars += other.bars
        for name, counts in other.facets.items():
            self.facets[name].update(counts)
        self.matches += other.matches


class LogScan:
    """One search. Each thread calls `work`; call `result` when all threads have returned."""

    def __init__(
        self,
        chunks: Iterable[LogChunk],
        wanted: LineFilter,
        buckets: Buckets,
        limit: int,
        stop: SearchStop,
        cursor: Cursor | None = None,
    ) -> None:
        self._wanted = wanted
        self._buckets = buckets
        self._limit = limit
        self._cursor = cursor
        self._stop = stop
        self._waiting = sorted(chunks, key=lambda chunk: chunk.latest)  # pop() takes the newest first
        self._tallies: list[Tally] = []

    def work(self) -> None:
        tally = Tally(self._buckets)
        self._tallies.append(tally)
        while not self._stop.is_due:
            try:
                chunk = self._waiting.pop()
            except IndexError:
                return
            self._look(chunk, tally)

    @property
    def is_complete(self) -> bool:
        return not self._waiting

    def result(self) -> Tally:
        total = Tally(self._buckets)
        for tally in self._tallies:
            total.merge(tally)
        total.matches = newest(total.matches, self._limit)
        return total

    def _look(self, chunk: LogChunk, tally: Tally) -> None:
        tally.scanned += chunk.rows.num_rows
        rows = matching_rows(chunk, self._wanted)
        count = chunk.rows.num_rows if rows is None else len(rows)
        if not count:
            return
        tally.matched += count
        times = _taken(milliseconds(chunk.rows.column("time")), rows)
        levels = _taken(codes_of(chunk.rows.column("level")), rows)
        tally.bars += _bars(times, levels, self._buckets)
        _count_names(tally.facets, chunk.rows, rows)
        self._keep_newest(chunk, tally, times, rows)

    def _keep_newest(self, chunk: LogChunk, tally: Tally, times: Longs, rows: Longs | None) -> None:
        indexes = np.arange(len(times)) if rows is None else rows
        if self._cursor is not None:
            older = _older(times, indexes + chunk.first_row, self._cursor)
            times, indexes = times[older], indexes[older]
        tally.beyond += len(times)
        chosen = _last(times, self._limit)
        found = [
            LineMatch(int(times[each]), chunk.first_row + int(indexes[each]), chunk, int(indexes[each]))
            for each in chosen
        ]
        tally.matches = newest([*tally.matches, *found], self._limit)


def newest(matches: Sequence[LineMatch], limit: int) -> list[LineMatch]:
    return sorted(matches, key=lambda match: match[:2], reverse=True)[:limit]


def matching_rows(chunk: LogChunk, wanted: LineFilter) -> Longs | None:
    """Indexes of matching rows within the chunk; None for all rows."""
    mask = _mask(chunk, wanted)
    rows = None if mask is None else np.flatnonzero(mask)
    for term in wanted.terms:
        rows = _also(chunk.rows.column("message"), rows, term)
    return rows


def _also(messages: pa.Array, rows: Longs | None, term: Term) -> Longs:
    """If most lines remain, matching all of them in place is faster than copying."""
    if rows is None:
        return np.flatnonzero(_hits(messages, term))
    if len(rows) > COPIED_SHARE * len(messages):
        return rows[_hits(messages, term)[rows]]
    return rows[_hits(messages.take(pa.array(rows)), term)] if len(rows) else rows


def _hits(texts: pa.Array, term: Term) -> Mask:
    """Match with RE2 even for plain words: several times faster than Arrow's substring search, and it ignores case."""
    found: Mask = pc.match_substring_regex(texts, term.pattern, ignore_case=True).to_numpy(
        zero_copy_only=False
    )
    return found if term.wanted else ~found


def _mask(chunk: LogChunk, wanted: LineFilter) -> Mask | None:
    """Apply the cheap tests: time, level and names. None: all rows."""
    masks = [mask for mask in (_within(chunk, wanted), *_named(chunk.rows, wanted)) if mask is not None]
    return np.logical_and.reduce(masks) if masks else None


def _within(chunk: LogChunk, wanted: LineFilter) -> Mask | None:
    since = chunk.earliest if wanted.since is None else wanted.since
    until = chunk.latest + 1 if wanted.until is None else wanted.until
    if chunk.earliest >= since and chunk.latest < until:
        return None
    if chunk.latest < since or chunk.earliest >= until:
        return np.zeros(chunk.rows.num_rows, np.bool_)
    times = milliseconds(chunk.rows.column("time"))
    return np.asarray((times >= since) & (times < until))


def _named(rows: pa.RecordBatch, wanted: LineFilter) -> Iterable[Mask | None]:
    if wanted.levels is not None:
        yield _chosen(rows.column("level"), [code in wanted.levels for code in range(len(LEVELS))])
    for name, values in wanted.names.items():
        column = rows.column(name)
        yield _chosen(column, [value in values for value in column.dictionary.to_pylist()])


def _chosen(column: pa.DictionaryArray, is_wanted: list[bool]) -> Mask | None:
    return None if all(is_wanted) else np.array(is_wanted, np.bool_)[codes_of(column)]


def _taken(values: npt.NDArray[Any], rows: Longs | None) -> npt.NDArray[Any]:
    return values if rows is None else values[rows]


def _bars(times: Longs, levels: npt.NDArray[Any], buckets: Buckets) -> Longs:
    """Count lines by bucket and level. Lines outside of the range count in the first or the last bucket."""
    indexes = np.clip((times - buckets.start) // buckets.width, 0, buckets.number - 1)
    shape = buckets.number, len(LEVELS)
    flat = np.bincount(indexes * shape[1] + levels, minlength=shape[0] * shape[1])
    return flat.reshape(shape).astype(np.int64)


def _count_names(facets: Mapping[str, Counter[str]], rows: pa.RecordBatch, chosen: Longs | None) -> None:
    for name, counter in facets.items():
        column = rows.column(name)
        counts = np.bincount(_taken(codes_of(column), chosen), minlength=len(column.dictionary))
        present = np.flatnonzero(counts)
        if len(present) > MAX_VALUES:
            present = present[np.argsort(counts[present])[-MAX_VALUES:]]
        values = column.dictionary.take(pa.array(present)).to_pylist()
        for value, count in zip(values, counts[present].tolist(), strict=True):
            counter[value] += count


def _older(times: Longs, rows: Longs, cursor: Cursor) -> Mask:
    return np.asarray((times < cursor.time) | ((times == cursor.time) & (rows < cursor.row)))


def _last(times: Longs, limit: int) -> Longs:
    """Indexes of the newest lines; among equal times, the later ones."""
    if len(times) <= limit:
        return np.arange(len(times))
    minimum = np.partition(times, len(times) - limit)[len(times) - limit]
    above, equal = np.flatnonzero(times > minimum), np.flatnonzero(times == minimum)
    return np.concatenate([equal[len(equal) - (limit - len(above)) :], above])
