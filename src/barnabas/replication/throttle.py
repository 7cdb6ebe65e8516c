"""Limits on the bytes of replication, as `kafka-reassign-partitions --throttle` sets them.

A topic names the replicas that are throttled (`partition:broker`, or `*` for all), a broker the rate. Replicas in sync
are never held back: they would fall out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

UNLIMITED = 2**63 - 1
ALL = "*"


class Throttle:
    """A bucket that fills at `rate` bytes a second and holds one second's worth; what is taken may be more than is
    in it, and then nothing is given until the debt is paid."""

    def __init__(self, monotonic: Callable[[], float], rate: int = UNLIMITED) -> None:
        self._monotonic = monotonic
        self._filled_at = monotonic()
        self._level = float(rate)
        self._rate = rate

    @property
    def rate(self) -> int:
        return self._rate

    @rate.setter
    def rate(self, rate: int) -> None:
        self._rate = rate
        self._level = min(self._level, float(rate))

    @property
    def is_exceeded(self) -> bool:
        if self.rate >= UNLIMITED:
            return False
        now = self._monotonic()
        self._level = min(float(self.rate), self._level + (now - self._filled_at) * self.rate)
        self._filled_at = now
        return self._level <= 0

    def take(self, count: int) -> None:
        if self.rate < UNLIMITED:
            self._level -= count


def is_throttled(listed: Iterable[str], index: int, broker_id: int) -> bool:
    """Does a topic's list name this replica?"""
    wanted = f"{index}:{broker_id}"
    return any(entry in (ALL, wanted) for entry in listed)
