"""The exporter of one cluster: follows its sampler, and writes the page when it is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

from barnabas.client.cluster import Client
from barnabas.console.exporter.lines import page_lines
from barnabas.console.exporter.members import MemberCounts
from barnabas.console.sampling.sampler import Sampler

LINES_PER_TURN = 500
"""A large cluster has half a million; other pages must not wait for them."""


class Exporter:
    """`start` begins to count members of groups, `close` ends that. All methods belong to one event loop."""

    def __init__(self, sampler: Sampler, client: Client) -> None:
        self._sampler = sampler
        self._members = MemberCounts(client)
        self._following: asyncio.Task[None] | None = None
        self._rendering: asyncio.Task[bytes] | None = None

    def start(self) -> None:
        self._following = asyncio.create_task(self._follow(), name="exporter")

    async def close(self) -> None:
        for task in (self._following, self._rendering):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    def lines(self) -> Iterator[str]:
        snapshot = self._sampler.snapshot
        return page_lines(snapshot, self._members.counts, snapshot.age)

    async def page(self) -> bytes:
        """The whole page, written once for all who ask meanwhile."""
        if self._rendering is None:
            self._rendering = asyncio.create_task(self._render())
        return await asyncio.shield(self._rendering)

    async def _render(self) -> bytes:
        try:
            lines: list[str] = []
            for number, line in enumerate(self.lines()):
                lines.append(line)
                if number % LINES_PER_TURN == LINES_PER_TURN - 1:
                    await asyncio.sleep(0)
            return "".join(lines).encode("utf-8", "replace")
        finally:
            self._rendering = None

    async def _follow(self) -> None:
        async for snapshot in self._sampler.ticks():
            await self._members.refresh(snapshot)
