"""Work that would hold the loop up, done in turns: a few milliseconds, then whoever waits, then the next few.

The work is a generator of steps, none of which takes long. A turn ends when its time is over, or after so many steps:
a simulation, whose clock stands still meanwhile, lets others in after each of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

TURN_SECONDS = 0.003
MOST_STEPS = 1000


class Rounds:
    """One round of steps after the other, each begun `interval` seconds after the one before was over."""

    def __init__(
        self,
        steps: Callable[[], Iterator[None]],
        interval: float,
        monotonic: Callable[[], float],
        most_steps: int = MOST_STEPS,
    ) -> None:
        self._steps = steps
        self._interval = interval
        self._monotonic = monotonic
        self._most_steps = most_steps
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
        until = self._monotonic() + TURN_SECONDS
        for _ in range(self._most_steps):
            if next(self._round, self) is self:
                return True
            if self._monotonic() >= until:
                break
        return False
