"""Producer ids, taken from the controller a block at a time (KIP-730)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable


class ProducerIds:
    def __init__(self, allocate: Callable[[], Awaitable[range]]) -> None:
        self._allocate = allocate
        self._block = range(0)

    @property
    def is_ready(self) -> bool:
        """Can the next id be taken without waiting?"""
        return len(self._block) > 0

    def take(self) -> int | None:
        """The next id; None when the block is used up and another must be waited for."""
        if not self._block:
            return None
        producer_id, self._block = self._block[0], self._block[1:]
        return producer_id

    async def refill(self) -> None:
        """Return when there are ids to take."""
        while not self._block:
            block = await self._allocate()
            if not self._block:  # else somebody else's block was faster; ids are plenty, ours is given up
                self._block = block

    async def next(self) -> int:
        while (producer_id := self.take()) is None:
            await self.refill()
        return producer_id
