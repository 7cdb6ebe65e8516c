"""Work on the loop that takes long, a turn at a time: in between, the loop serves the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any, TypeVar

from barnabas.common.clock import Turn, TurnLimit

# A ping waits for one turn of each request that works in turns, and for whatever else is ready.
LIMIT = TurnLimit(seconds=0.004)

# Of its time a request that works in turns leaves this much to the others, for each second that it works.
REST = 0.5

T = TypeVar("T")
R = TypeVar("R")


class RequestTurn(Turn):
    """The time that one request has worked without letting go of the loop."""

    __slots__ = ("_began", "_first")

    def __init__(self) -> None:
        super().__init__(LIMIT, time.monotonic)
        self._first = self._began

    @property
    def seconds(self) -> float:
        """How long ago the first turn began."""
        return time.monotonic() - self._first

    def begin(self) -> None:
        super().begin()
        self._began = time.monotonic()

    async def rest(self) -> None:
        """Let the others go on, the longer the longer this turn has been."""
        await asyncio.sleep((time.monotonic() - self._began) * REST)
        self.begin()

    async def run(self, steps: Generator[None, None, R]) -> R:
        """Run a generator to its end and return what it returns."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: R = end.value
                return result
            if self.is_over():
                await self.rest()

    async def collect(self, items: Iterable[T], make: Callable[[T], R]) -> list[R]:
        """Make one thing of each item."""
        made = []
        for item in items:
            made.append(make(item))
            if self.is_over():
                await self.rest()
        return made


def at_once_or_in_turns(request: Any, steps: Generator[None, None, R]) -> R | Coroutine[Any, Any, R]:
    """What a handler returns whose answer may be large: the answer, if its first step is the last one."""
    try:
        next(steps)
    except StopIteration as end:
        result: R = end.value
        return result
    request.is_large = True
    return RequestTurn().run(steps)
