"""Status of pipelines, connectors, agents and mirrors, as reported to `__barnabas_status`.

The board polls every few seconds, so that pages never wait, and keeps two hours of each flow for its curve. While the
cluster is unreachable, the last reports are shown with their age.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from barnabas.client import Client, ClientError
from barnabas.client.status import REPORT_SECONDS, Kind, ProcessStatus, StatusPart, StatusTable
from barnabas.common.errors import KafkaError

MAX_POINTS = 1440
"""Per flow: two hours at one report every five seconds."""
MAX_TRENDS = 2000

RATE_MS = 60_000
"""Reports come every five seconds, batches of a pipeline every few seconds up to minutes."""

FlowKey = tuple[str, str, str]
"""Kind, name and part."""


class StatusPoint(msgspec.Struct):
    ms: int
    total: float
    """Rows or records since the start."""
    rate: float | None
    """Rows or records per second since the previous point."""
    lag: int | None


class StatusBoard:
    """Latest status reports, polled in the background between `start` and `close`; `current` never waits."""

    def __init__(self, client: Client, interval: float = REPORT_SECONDS) -> None:
        self._table = StatusTable(client)
        self._interval = interval
        self._found: list[ProcessStatus] = []
        self._trends: dict[FlowKey, deque[StatusPoint]] = {}
        self._task: asyncio.Task[None] | None = None
        self.looked = asyncio.Event()
        """Set after each poll, successful or not."""
        self._reading = asyncio.Lock()
        self.taken_ms = 0
        self.error = ""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="statuses")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def current(self, kind: Kind | None = None) -> list[ProcessStatus]:
        now = time.time()
        return [each.as_seen(now) for each in self._found if kind is None or each.kind == kind]

    def trend(self, status: ProcessStatus, part: StatusPart) -> list[StatusPoint]:
        return list(self._trends.get((status.kind, status.name, part.name), ()))

    def rate(self, status: ProcessStatus, part: StatusPart) -> float | None:
        """Rows or records per second over the last minute; None if unknown."""
        points = self._trends.get((status.kind, status.name, part.name))
        if not points:
            return None
        since = points[-1].ms - RATE_MS
        recent = [point for point in points if point.ms >= since]
        for at, point in reversed(list(enumerate(recent))):
            if point.rate is None:  # the first report, or a restart
                recent = recent[at:]
                break
        seconds = (recent[-1].ms - recent[0].ms) / 1000
        return (recent[-1].total - recent[0].total) / seconds if seconds > 0 else None

    async def refresh(self) -> None:
        try:
            async with self._reading:
                self._found = await self._table.read()
            self.taken_ms, self.error = time.time_ns() // 1_000_000, ""
        except (KafkaError, ClientError, TimeoutError, OSError) as error:
            self.error = f"No newer reports: {error or 'the cluster did not answer in time'}"
            return
        self._remember()

    async def _run(self) -> None:
        while True:
            await self.refresh()
            self.looked.set()
            await asyncio.sleep(self._interval)

    def _remember(self) -> None:
        seen = dict(_flows(self._found))
        for key in self._trends.keys() - seen.keys():
            del self._trends[key]
        for key, (status, part) in list(seen.items())[:MAX_TRENDS]:
            _add(self._trends.setdefault(key, deque(maxlen=MAX_POINTS)), status, part)


def _flows(statuses: list[ProcessStatus]) -> Iterator[tuple[FlowKey, tuple[ProcessStatus, StatusPart]]]:
    for status in statuses:
        for part in status.parts:
            yield (status.kind, status.name, part.name), (status, part)


def _add(points: deque[StatusPoint], status: ProcessStatus, part: StatusPart) -> None:
    if points and points[-1].ms >= status.updated:
        return
    total = rows_of(status, part)
    points.append(StatusPoint(status.updated, total, _rate(points, status.updated, total), part.lag))


def rows_of(status: ProcessStatus, part: StatusPart) -> float:
    """Rows or records of a flow. A connector is one flow, counted as a whole."""
    return part.counts.get("rows", part.counts.get("records", status.counts.get("rows", 0)))


def _rate(points: deque[StatusPoint], ms: int, total: float) -> float | None:
    """None for the first report and after a restart, which resets the counter."""
    if not points or total < points[-1].total:
        return None
    return (total - points[-1].total) * 1000 / (ms - points[-1].ms)
