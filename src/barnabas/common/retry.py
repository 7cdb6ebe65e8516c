"""Deadlines and exponential backoff."""

from __future__ import annotations

import random
import time

UNLIMITED = float("inf")
_MAX_EXPONENT = 64  # avoids float overflow


class Deadline:
    """Point in time after which no more attempts are made."""

    __slots__ = ("_end",)

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def remaining(self) -> float:
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self._end


def delay_after(failures: int, first: float, maximum: float = UNLIMITED, growth: float = 2.0) -> float:
    """Return the delay after `failures` earlier failures: `first` initially, multiplied by `growth` each time."""
    return min(first * growth ** min(failures, _MAX_EXPONENT), maximum)


class Backoff:
    """Exponential backoff with a maximum and jitter, so that clients do not reconnect simultaneously.

    The defaults are Kafka's: retry.backoff.ms, retry.backoff.max.ms and its jitter of 20 %.
    """

    __slots__ = ("_first", "_jitter", "_maximum", "_next")

    def __init__(self, first: float = 0.1, maximum: float = 1.0, jitter: float = 0.2) -> None:
        self._first = self._next = first
        self._maximum = maximum
        self._jitter = jitter

    def next_delay(self, at_least: float = 0.0) -> float:
        """Return the next delay. Later delays grow from `at_least` if that is longer."""
        delay = min(max(self._next, at_least), self._maximum)
        self._next = 2 * delay
        return delay * random.uniform(1 - self._jitter, 1 + self._jitter) if self._jitter else delay

    def reset(self) -> None:
        self._next = self._first

    @property
    def is_fresh(self) -> bool:
        """True until the first delay, and after `reset`."""
        return self._next == self._first
