"""Samples a cluster every ten seconds. Pages read `snapshot` without waiting.

A refresh is hundreds of small requests, so that no answer holds the loop for more than some milliseconds. A cluster
that does not answer leaves the last snapshot, with a sentence in `error`.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec

from barnabas.client import Client
from barnabas.client.errors import ClientError
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
"""Seconds until the second refresh: rates need two, and somebody may be looking already."""


class Sampler:
    """`start` begins, `close` ends. All methods belong to one event loop."""

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
        """The snapshot now, if there is one, then each newer one."""
        if not self.snapshot.is_empty:
            yield self.snapshot
        while True:
            await self._taken.wait()
            yield self.snapshot

    async def refresh(self) -> ClusterSnapshot:
        """A new snapshot now; the old one with a sentence if the cluster does not answer."""
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
        """A full disk leaves a gap in the curves, and everything else as it is."""
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
            # Ticks lie on the grid of the clock, so that the steps of a curve have one each.
            past = self._clock.now_ms() / 1000 % self.interval
            await asyncio.sleep(self.interval - past)
