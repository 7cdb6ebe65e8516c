"""How fetches wait for remote segments."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from barnabas.replication.tiered_reads import RemoteLimits, TieredReads

LIMITS = RemoteLimits(0.01, 1.0)


class SlowPart:
    """A remote part whose chunk comes when it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_here = asyncio.Event()

    async def prepare(self, offset: int) -> object:
        self.asked += 1
        await self.is_here.wait()
        return offset

    def remote_log(self, log: Any) -> Any:
        return self


def a_log() -> Any:
    return SimpleLog(offsets=SimpleNamespace(start=0, local_start=100))


class SimpleLog(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]


def test_a_client_that_asks_again_and_again_for_what_is_on_its_way_adds_no_work() -> None:
    async def scenario() -> None:
        part, log = SlowPart(), a_log()
        reads = TieredReads(None, part, asyncio.get_running_loop(), lambda: LIMITS)  # type: ignore[arg-type]
        for _ in range(5):
            answered = asyncio.Event()
            reads.warm([(log, 7, 1)], answered.set)
            await asyncio.wait_for(answered.wait(), 10)
        assert (part.asked, reads.expired) == (1, 5)
        part.is_here.set()
        for offset in (7, 8):
            answered = asyncio.Event()
            reads.warm([(log, offset, 1)], answered.set)
            await asyncio.wait_for(answered.wait(), 10)
        await reads.close()
        assert part.asked == 2

    asyncio.run(scenario())
