"""The search processes of a console: as many as there are cores, at most four, kept warm."""

from __future__ import annotations

import asyncio
import os

from barnabas.client.cluster import Closing
from barnabas.services.console.scanning.process import COMMAND, SearchProcess

MOST = 4


class Pool(Closing):
    def __init__(self, size: int | None = None, command: tuple[str, ...] = COMMAND) -> None:
        self.processes = [SearchProcess(command) for _ in range(size or min(MOST, _cores()))]

    async def start(self) -> None:
        """So that the first search does not wait for the processes to import what they need."""
        await asyncio.gather(*(process.start() for process in self.processes))

    async def close(self) -> None:
        await asyncio.gather(*(process.stop() for process in self.processes))

    def choose(self, count: int) -> list[SearchProcess]:
        """At most so many, those with the fewest jobs."""
        return sorted(self.processes, key=lambda process: process.busy)[: max(1, count)]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
