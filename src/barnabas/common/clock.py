"""Time as two seams: a clock to read and timers to set. Each has a twin that tests move by hand."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock time in epoch milliseconds: what goes into records and files."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump: what timeouts are measured with."""
        ...


class Timer(Protocol):
    def cancel(self) -> None: ...


class Timers(Protocol):
    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer: ...


class TurnLimit(NamedTuple):
    """How much of long work is done before others have a turn: a few milliseconds, or so many steps if that is less.
    The clock of a simulation stands still meanwhile, so there the steps count."""

    seconds: float = 0.003
    steps: int = 1000
    piece_bytes: int = 1 << 20
    """Of batches, what is appended in a step, unless they are many (`replication/follower.py`)."""


class Turn:
    """The present turn of some long work."""

    __slots__ = ("_limit", "_monotonic", "_steps", "_until")

    def __init__(self, limit: TurnLimit, monotonic: Callable[[], float]) -> None:
        self._limit = limit
        self._monotonic = monotonic
        self.begin()

    def begin(self) -> None:
        self._steps = 0
        self._until = self._monotonic() + self._limit.seconds

    def is_over(self) -> bool:
        """Asked after each step."""
        self._steps += 1
        return self._steps >= self._limit.steps or self._monotonic() >= self._until


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock, and its timers, that stand still until a test moves them."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._start_ms = now_ms
        self._elapsed_ms = 0
        self._order = itertools.count()
        self._due: list[tuple[int, int, ManualTimer]] = []

    def now_ms(self) -> int:
        return self._start_ms + self._elapsed_ms

    def monotonic(self) -> float:
        return self._elapsed_ms / 1000

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = ManualTimer(callback)
        heapq.heappush(self._due, (self._elapsed_ms + round(seconds * 1000), next(self._order), timer))
        return timer

    def advance(self, milliseconds: int) -> None:
        """Move time on, firing each timer at its own moment and in order."""
        end = self._elapsed_ms + milliseconds
        while self._due and self._due[0][0] <= end:
            moment, _, timer = heapq.heappop(self._due)
            self._elapsed_ms = max(self._elapsed_ms, moment)
            timer.fire()
        self._elapsed_ms = end


class ManualTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def fire(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()
