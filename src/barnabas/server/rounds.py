"""Work that would hold the loop up, done in turns: a few milliseconds, then others, then the next few.

The work is a generator of steps, none of which takes long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from barnabas.clock import Turn, TurnLimit


class Rounds:
    """One round of steps after the other, each begun `interval` seconds after the one before was over."""

    def __init__(
        self,
        steps: Callable[[], Iterator[None]],
        interval: float,
        monotonic: Callable[[], float],
        limit: TurnLimit,
    ) -> None:
        self._steps = steps
        self._interval = interval
        self._current = Turn(limit, monotonic)
        self._round: Iterator[None] = iter(())
        self._next: asyncio.Handle | None = None

    def start(self) -> None:
        self._round = self._steps()
        self._turn()

    def stop(self) -> None:
        """Not even the rest of the round."""
        self._round = iter(())
        if self._next is not None:
            self._next.cancel()

    def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        self._next = loop.call_later(self._interval, self.start)  # also when a step fails
        if not self._is_over():
            self._next.cancel()
            self._next = loop.call_soon(self._turn)

    def _is_over(self) -> bool:
        """Take steps for one turn; True when there are no more."""
        turn = self._current
        turn.begin()
        while next(self._round, self) is not self:
            if turn.is_over():
                return False
        return True
