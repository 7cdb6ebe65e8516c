"""One search in one process: turns fetched sections of partitions into hits, in the requested order."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barnabas.client import Client
from barnabas.client.offsets import OffsetRange
from barnabas.records.columnar.decode import BITS, RecordColumns
from barnabas.services.console.scanning.messages import ScanHits
from barnabas.services.console.scanning.model import Hit, Search
from barnabas.services.console.scanning.worker.masking import Masking
from barnabas.services.console.scanning.worker.matching import Matcher, begins_with_id
from barnabas.services.console.scanning.worker.reader import (
    FetchedSection,
    RecordRun,
    ScanWindow,
    fetching,
    forwards,
)
from barnabas.services.console.scanning.worker.showing import Schemas, Viewer
from barnabas.services.console.scanning.worker.turns import FairTurns

REPORT_SECONDS = 0.1
WHOLE = frozenset(BITS) - {"timestampType"}

_steps = FairTurns(1)
"""Steps of searches on the only thread of the process."""

T = TypeVar("T")
Send = Callable[[ScanHits], Awaitable[None]]


class Looked(NamedTuple):
    """`matched` counts all matching records; `hits` holds at most the requested number."""

    records: int
    matched: int
    hits: list[Hit]


class Looker:
    """Filters and formats records, in a thread if decoding may query a schema registry."""

    def __init__(self, search: Search, schemas: Schemas | None) -> None:
        self._schemas, self._user = schemas, search.user
        self._newest = search.newest_first
        self._masking = Masking(search.masks, self._decode_any)
        decode = None if schemas is None or self._masking.hides_value else schemas.decode
        self.matcher = Matcher(search, decode)
        self.viewer = Viewer(search, schemas, value_is_masked=self._masking.hides_value)
        self._wanted = WHOLE if self._masking else (self.matcher.sources - {"partition"}) | {"offset"}

    async def look(self, part: RecordRun, partition: int, limit: int) -> Looked:
        return await self._call(self._find, part, partition, limit)

    async def take_later(self, part: RecordRun, partition: int, limit: int) -> tuple[int, int, RecordColumns]:
        return await self._call(self.take, part, partition, limit)

    async def _call(
        self, work: Callable[[RecordRun, int, int], T], part: RecordRun, partition: int, limit: int
    ) -> T:
        if self._schemas is not None:
            return await asyncio.to_thread(work, part, partition, limit)
        async with _steps.turn(self._user):
            found = work(part, partition, limit)
        await asyncio.sleep(0)  # handle requests from the console between two parts
        return found

    def take(self, part: RecordRun, partition: int, limit: int) -> tuple[int, int, RecordColumns]:
        """Return (records, matches, all columns of the first or newest `limit` matches)."""
        columns = self._masked(part.columns(self._wanted))
        chosen = self.matcher.rows(columns, partition)
        matched = len(chosen)
        chosen = chosen[-limit:] if self._newest else chosen[:limit]
        if not matched:
            return columns.rows, 0, RecordColumns(0)
        full = columns if columns.arrays.keys() >= WHOLE else self._masked(part.columns(WHOLE))
        return columns.rows, matched, taken(full, chosen)

    def _find(self, part: RecordRun, partition: int, limit: int) -> Looked:
        records, matched, columns = self.take(part, partition, limit)
        return Looked(records, matched, self.viewer.hits(as_rows(columns), partition) if matched else [])

    def _masked(self, columns: RecordColumns) -> RecordColumns:
        return self._masking.apply(columns) if self._masking else columns

    def _decode_any(self, data: bytes) -> Any:
        if self._schemas is not None and begins_with_id(pa.array([data], pa.binary()))[0]:
            return self._schemas.decode(data)
        return msgspec.json.decode(data)


class Searching:
    """Runs a search over offset ranges. `send` blocks while too many answers are unread."""

    def __init__(
        self,
        client: Client,
        search: Search,
        ranges: list[OffsetRange],
        schemas: Schemas | None,
        send: Send,
        number: int,
    ) -> None:
        self._client, self._search, self._ranges = client, search, ranges
        self._send, self._number = send, number
        self._looker = Looker(search, schemas)
        self.notes: list[str] = []
        self._hits: list[Hit] = []
        self._positions: dict[int, int] = {}
        self._reached: dict[int, int] = {}
        self._records = self._bytes = 0
        self._failed = 0
        self._left = search.limit
        self._reported = time.monotonic()

    async def run(self) -> None:
        await (self._backwards() if self._search.newest_first else self._forwards())

    async def _forwards(self) -> None:
        async for section in forwards(self._client, self._ranges, self._search.committed, self._lose):
            await self._take_forwards(section)
            if self._left <= 0:
                break
            await self._report()
        if self._left > 0:
            self._positions.update({tp.partition: until for tp, _, until in self._ranges})
        await self._report(now=True)

    async def _take_forwards(self, section: FetchedSection) -> None:
        partition = section.tp.partition
        self._bytes += section.bytes
        for part in section.parts():
            found = await self._look(part, partition)
            self._left -= len(found)
            self._hits += found
            if self._left <= 0:
                self._positions[partition] = found[-1].offset + 1
                return
            self._positions[partition] = part.next_offset
        self._reached[partition] = max(section.newest, self._reached.get(partition, -1))

    async def _backwards(self) -> None:
        windows = {
            offset_range.tp: ScanWindow(offset_range, len(self._ranges)) for offset_range in self._ranges
        }
        while windows and self._left > 0:
            found = await self._read_windows(windows)
            for hit in in_order(found):
                self._hits.append(hit)
                self._left -= 1
                self._positions[hit.partition] = hit.offset
                if self._left <= 0:
                    break
            else:
                self._positions.update({tp.partition: window.first for tp, window in windows.items()})
            for window in windows.values():
                window.advance()
            windows = {tp: window for tp, window in windows.items() if not window.is_done}
            await self._report(now=bool(self._hits))
        await self._report(now=True)

    async def _read_windows(self, windows: dict[Any, ScanWindow]) -> dict[int, list[Hit]]:
        """Return the hits of one window of each partition, newest first."""
        found: dict[int, list[Hit]] = {tp.partition: [] for tp in windows}
        ranges = [window.range for window in windows.values()]
        async with fetching(self._client, ranges, self._search.committed, self._lose) as fetcher:
            while not fetcher.is_done:
                for fetched in await fetcher.next():
                    section = windows[fetched.tp].take(fetched)
                    await self._take_backwards(section, found[fetched.tp.partition])
        return {partition: hits[::-1] for partition, hits in found.items()}

    async def _take_backwards(self, section: FetchedSection, hits: list[Hit]) -> None:
        partition = section.tp.partition
        self._bytes += section.bytes
        for part in section.parts():
            hits += await self._look(part, partition)
            del hits[: -self._left]
        self._reached[partition] = section.oldest

    async def _look(self, part: RecordRun, partition: int) -> list[Hit]:
        looked = await self._looker.look(part, partition, self._left)
        self._records += looked.records
        return looked.hits

    async def _report(self, *, now: bool = False) -> None:
        if not now and time.monotonic() - self._reported < REPORT_SECONDS:
            return
        self._reported = time.monotonic()
        matcher = self._looker.matcher
        failed, self._failed = matcher.failures - self._failed, matcher.failures
        answer = ScanHits(
            self._number, self._hits, self._positions, self._reached, self._records, self._bytes,
            failed, matcher.failure,
        )  # fmt: skip
        self._hits, self._positions, self._reached = [], {}, {}
        self._records = self._bytes = 0
        await self._send(answer)

    def _lose(self, what: str) -> None:
        self.notes.append(f"{what}.")


def in_order(found: dict[int, list[Hit]]) -> Iterator[Hit]:
    """Merge hits by time, newest first, keeping the order within each partition."""
    return heapq.merge(*found.values(), key=lambda hit: -hit.timestamp)


def taken(columns: RecordColumns, rows: npt.NDArray[np.intp]) -> RecordColumns:
    indices = pa.array(rows)
    return RecordColumns(len(rows), {name: array.take(indices) for name, array in columns.arrays.items()})


def as_rows(columns: RecordColumns) -> Iterator[dict[str, Any]]:
    """Return records as dicts, with timestamps in milliseconds."""
    arrays = dict(columns.arrays)
    arrays["timestamp"] = pa.array(arrays["timestamp"].view(pa.int64()).to_numpy() // 1000)
    names = [name for name in arrays if name in WHOLE]
    headers = as_binary(arrays["headers"])
    lists = [headers if name == "headers" else arrays[name].to_pylist() for name in names]
    return (dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True))


def as_binary(headers: pa.Array) -> list[list[dict[str, Any]]]:
    """Decode header names, which need not be UTF-8; values stay bytes."""
    pairs = headers.values
    names = [name.decode("utf-8", "replace") for name in pairs.field("key").view(pa.binary()).to_pylist()]
    values = pairs.field("value").to_pylist()
    bounds = headers.offsets.to_pylist()
    return [
        [{"key": names[at], "value": values[at]} for at in range(first, until)]
        for first, until in itertools.pairwise(bounds)
    ]
