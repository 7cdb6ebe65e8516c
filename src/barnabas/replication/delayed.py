"""A delayed operation, as in Kafka's purgatory: a request that cannot be answered yet.

    op = SomeOperation(loop, ...)
    if not op.try_complete():     # watches what it depends on
        op.wait(seconds)          # tries again after each change, and expires after so long

Produce waits until its records are safe, fetch and share fetch until there is enough to read, the coordinators until
their records are safe. Each says what `try_complete` checks, and responds where `complete` returns True: once, at its
deadline at the latest. No Task and no Future is created.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from barnabas.common.clock import Timer, Timers


class TimerLoop(Protocol):
    """The event loop's timer functions."""

    @property
    def timers(self) -> Timers: ...

    @property
    def call_soon(self) -> Callable[[Callable[[], None]], object]:
        """Call a function in the next turn of the loop."""
        ...


class DelayedOperation(ABC):
    __slots__ = ("_is_scheduled", "_loop", "_timer", "is_completed")

    def __init__(self, loop: TimerLoop) -> None:
        self._loop = loop
        self._timer: Timer | None = None
        self._is_scheduled = False
        self.is_completed = False

    @abstractmethod
    def try_complete(self) -> bool:
        """Complete and respond if the condition holds. Otherwise watch the partitions involved, and call `changed`
        on each change."""

    @abstractmethod
    def on_expiration(self) -> None:
        """Complete and respond with the current state after the deadline."""

    def wait(self, seconds: float) -> None:
        if self._timer is None and not self.is_completed:
            self._timer = self._loop.timers.call_later(seconds, self.expire)

    def changed(self) -> None:
        """Try again in the next turn of the loop: one append may trigger several watches."""
        if not self._is_scheduled and not self.is_completed:
            self._is_scheduled = True
            self._loop.call_soon(self._try_again)

    def _try_again(self) -> None:
        self._is_scheduled = False
        if not self.is_completed:
            self.try_complete()

    def expire(self) -> None:
        if not self.is_completed:
            self.on_expiration()

    def complete(self) -> bool:
        """Cancel the deadline. True unless it was completed before: the caller responds."""
        if self.is_completed:
            return False
        self.is_completed = True
        if self._timer is not None:
            self._timer.cancel()
        return True
