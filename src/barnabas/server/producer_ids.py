"""Producer ids for idempotent producers, taken from the controller a block at a time (KIP-730)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable


class ProducerIds:
    def __init__(self, allocate: Callable[[], Awaitable[range]]) -> None:
        self._allocate = allocate
        self._block = iter(range(0))

    def take(self) -> int | None:
        """The next id; None when the block is used up and `next` must wait for another."""
        return next(self._block, None)

    async def next(self) -> int:
        while (producer_id := self.take()) is None:
            self._block = iter(await self._allocate())
        return producer_id
