"""Follows the sampler, asks for what it leaves out, and tells those who want to know: alarms, publishing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from barnabas.client.cluster import Client
from barnabas.services.console.exporter.known import Known
from barnabas.services.console.exporter.members import MemberCounts
from barnabas.services.console.sampling.sampler import Sampler
from barnabas.services.console.statuses import StatusBoard

Follower = Callable[[Known], Awaitable[None]]


class Watch:
    """`start` begins, `close` ends. All methods belong to one event loop."""

    def __init__(self, sampler: Sampler, client: Client, statuses: StatusBoard) -> None:
        self._sampler = sampler
        self._statuses = statuses
        self._members = MemberCounts(client)
        self._task: asyncio.Task[None] | None = None
        self.followers: list[Follower] = []
        """Called after every tick, one after the other; they do not raise."""

    @property
    def known(self) -> Known:
        snapshot = self._sampler.snapshot
        return Known(snapshot, snapshot.age, self._members.counts, tuple(self._statuses.current()))

    def start(self) -> None:
        self._task = asyncio.create_task(self._follow(), name="watch")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _follow(self) -> None:
        async for snapshot in self._sampler.ticks():
            if not snapshot.error:  # otherwise the cluster is away, or half of it
                await self._members.refresh(snapshot)
            for follower in self.followers:
                await follower(self.known)
