"""Samples a cluster every ten seconds. Pages read `snapshot` without waiting.

A refresh consists of hundreds of small requests, so that no response blocks the loop for more than a few milliseconds.
If the cluster does not answer, the last snapshot stays, with the reason in `error`.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec

from barnabas.client import Client, ClientError
from barnabas.common.clock import Clock, SystemClock
from barnabas.common.errors import KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.services.console.history.history import History
from barnabas.services.console.sampling.refresh import Refresh
from barnabas.services.console.sampling.series import PastRates, SeriesNames
from barnabas.services.console.sampling.snapshot import ClusterSnapshot

_logger = safe_logger(__name__)

INTERVAL = 10.0
SECOND_AFTER = 2.0
"""Seconds until the second refresh: rates need two samples, and a user may be waiting for them."""


class Sampler:
    """Samples between `start` and `close`. All methods belong to one event loop."""

    def __init__(
        self,
        client: Client,
        history: History | None = None,
        *,
        interval: float = INTERVAL,
        clock: Clock | None = None,
    ) -> None:
        self.client = client
        self.history = history
        self.interval = interval
        self.snapshot = ClusterSnapshot()
        self.past = PastRates(client)
        self._clock = clock or SystemClock()
        self._refresh = Refresh(client, self._clock)
        self._names = SeriesNames()
        self._task: asyncio.Task[None] | None = None
        self._taken = asyncio.Event()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="sampler")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def ticks(self) -> AsyncIterator[ClusterSnapshot]:
        """Yield the current snapshot, if any, then each new one."""
        if not self.snapshot.is_empty:
            yield self.snapshot
        while True:
            await self._taken.wait()
            yield self.snapshot

    async def refresh(self) -> ClusterSnapshot:
        """Take a snapshot now; if the cluster does not answer, the previous one with `error` set."""
        try:
            self.snapshot = await self._refresh.take(self.snapshot)
        except (ClientError, KafkaError, OSError) as error:
            self._set_error(str(error))
        except Exception:
            _logger.exception("a refresh failed")
            self._set_error("this is a defect of the console, and its log says more")
        else:
            await self._record(self.snapshot)
        self._taken.set()
        self._taken = asyncio.Event()
        return self.snapshot

    def _set_error(self, reason: str) -> None:
        self.snapshot = msgspec.structs.replace(self.snapshot, error=f"No newer figures: {reason}.")

    async def _record(self, snapshot: ClusterSnapshot) -> None:
        """Record a tick in the history. A full disk only leaves a gap in the curves."""
        if self.history is None:
            return
        try:
            await self.history.record(snapshot.taken_ms, await self._names.series_of(snapshot))
        except sqlite3.Error as error:
            _logger.warning("Figures were not recorded: %s", error)

    async def _run(self) -> None:
        await self.refresh()
        await asyncio.sleep(SECOND_AFTER)
        while True:
            await self.refresh()
            # Align ticks to multiples of the interval, so that each step of a curve has one.
            past = self._clock.now_ms() / 1000 % self.interval
            await asyncio.sleep(self.interval - past)
