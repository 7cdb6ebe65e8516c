"""Fetches that wait for remote segments."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from barnabas.replication.cold_reads import ColdRead
from barnabas.replication.tiered_reads import RemoteLimits, TieredReads

LIMITS = RemoteLimits(0.01, 1.0)


class SlowPart:
    """A remote part whose chunk arrives on demand."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_here = asyncio.Event()

    async def load(self, offset: int) -> object:
        self.asked += 1
        await self.is_here.wait()
        return offset


def a_log() -> Any:
    return SimpleLog(offsets=SimpleNamespace(start=0, local_start=100))


class SimpleLog(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]


def test_repeated_requests_for_a_pending_object_add_no_work() -> None:
    async def scenario() -> None:
        part, log = SlowPart(), a_log()
        remote: Any = part
        reads = TieredReads(None, asyncio.get_running_loop(), lambda: LIMITS)  # type: ignore[arg-type]
        for _ in range(5):
            answered = asyncio.Event()
            reads.load([ColdRead(log, 7, 1, remote)], answered.set)
            await asyncio.wait_for(answered.wait(), 10)
        assert (part.asked, reads.expired) == (1, 5)
        part.is_here.set()
        for offset in (7, 8):
            answered = asyncio.Event()
            read: Any = ColdRead(log, offset, 1, remote)
            reads.load([read], answered.set)
            await asyncio.wait_for(answered.wait(), 10)
            assert (read.batch, read.error) == (offset, None)
        await reads.close()
        assert part.asked == 2

    asyncio.run(scenario())
