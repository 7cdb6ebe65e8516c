"""Work that gives the loop back after some milliseconds, however much there is of it."""

from __future__ import annotations

import asyncio
import time

LONGEST = 0.004


class Slices:
    """One for each piece of long work: `await slices.rest()` after each step of it."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.perf_counter() + LONGEST

    async def rest(self) -> None:
        """Returns at once while the slice is not over."""
        if time.perf_counter() >= self._until:
            await asyncio.sleep(0)
            self._until = time.perf_counter() + LONGEST
