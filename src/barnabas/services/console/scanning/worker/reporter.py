"""Activity report of a topic: latest value of each key, and numeric fields of the values as curves over time."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec

from barnabas.client import Client
from barnabas.client.offsets import OffsetRange
from barnabas.services.console.scanning.messages import ReportJob, ScanHits
from barnabas.services.console.scanning.model import Hit, ShownValue
from barnabas.services.console.scanning.worker.searching import Searching
from barnabas.services.console.scanning.worker.showing import Schemas

MAX_FIELDS = 24
DEPTH = 3


class FieldMeans(msgspec.Struct):
    """Means of a numeric field per time slice; None for slices without records."""

    field: str
    values: list[float | None]
    lowest: float
    highest: float


class Report(msgspec.Struct):
    records: int
    newest: list[Hit]  # latest record of each key, newest first
    times: list[int]  # start of each slice, epoch milliseconds
    curves: list[FieldMeans]
    left_out: int = 0  # keys beyond the limit
    stopped: bool = False  # time limit reached before the end


async def report(
    client: Client, job: ReportJob, ranges: list[OffsetRange], schemas: Schemas | None
) -> Report:
    """Build the report of the newest records of a search, up to its limit."""
    gathered = Gathered(job.most_keys)

    async def take(found: ScanHits) -> None:
        for hit in found.hits:
            gathered.add(hit)

    try:
        async with asyncio.timeout(job.seconds):
            await Searching(client, job.search, ranges, schemas, take, 0).run()
    except TimeoutError:
        gathered.stopped = True
    return gathered.report(job.points)


class Gathered:
    def __init__(self, most_keys: int) -> None:
        self._most_keys = most_keys
        self._newest: dict[str, Hit] = {}
        self._left_out: set[int] = set()
        self._points: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self._records = 0
        self.stopped = False

    def add(self, hit: Hit) -> None:
        self._records += 1
        self._keep(hit)
        for field, number in numbers(_value(hit.value)):
            if field in self._points or len(self._points) < MAX_FIELDS:
                self._points[field].append((hit.timestamp, number))

    def _keep(self, hit: Hit) -> None:
        if hit.key.format == "null":
            return
        known = self._newest.get(hit.key.text)
        if known is None and len(self._newest) >= self._most_keys:
            self._left_out.add(hash(hit.key.text))
        elif known is None or (known.timestamp, known.offset) < (hit.timestamp, hit.offset):
            self._newest[hit.key.text] = hit

    def report(self, points: int) -> Report:
        newest = sorted(self._newest.values(), key=lambda hit: (-hit.timestamp, hit.partition, -hit.offset))
        timestamps = [timestamp for field in self._points.values() for timestamp, _ in field]
        if not timestamps:
            return Report(self._records, newest, [], [], len(self._left_out), self.stopped)
        first, last = min(timestamps), max(timestamps)
        step = max(1, math.ceil((last - first + 1) / points))
        times = list(range(first, last + 1, step))
        curves = [
            _curve(field, found, first, step, len(times)) for field, found in sorted(self._points.items())
        ]
        return Report(self._records, newest, times, curves, len(self._left_out), self.stopped)


def _curve(field: str, found: list[tuple[int, float]], first: int, step: int, count: int) -> FieldMeans:
    sums, counts = [0.0] * count, [0] * count
    for timestamp, number in found:
        at = (timestamp - first) // step
        sums[at] += number
        counts[at] += 1
    values = [total / many if many else None for total, many in zip(sums, counts, strict=True)]
    every = [number for _, number in found]
    return FieldMeans(field, values, min(every), max(every))


def _value(shown: ShownValue) -> Any:
    if shown.cut or shown.format in ("null", "hex", "text", "masked"):
        return None
    try:
        return msgspec.json.decode(shown.text)
    except msgspec.MsgspecError:
        return None


def numbers(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, float]]:
    """Yield finite numbers with their field paths; lists are skipped."""
    if isinstance(value, dict) and depth < DEPTH:
        for name, inner in value.items():
            yield from numbers(inner, f"{path}.{name}" if path else str(name), depth + 1)
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and path and math.isfinite(value):
        yield path, float(value)
