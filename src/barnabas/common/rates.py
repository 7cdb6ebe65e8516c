"""Rate limiters: a token bucket, which allows bursts, and pacing, which does not. They compute delays; callers wait."""

from __future__ import annotations

import time
from collections.abc import Callable


class TokenBucket:
    """Token bucket: starts full, refills at `rate` per second up to `burst_seconds` worth, and can be overdrawn."""

    __slots__ = ("_burst_seconds", "_clock", "_filled_at", "_rate", "_tokens")

    def __init__(
        self, rate: float, burst_seconds: float = 1.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst_seconds = burst_seconds
        self._clock = clock
        self._tokens = rate * burst_seconds
        self._filled_at = clock()

    @property
    def rate(self) -> float:
        return self._rate

    @rate.setter
    def rate(self, rate: float) -> None:
        """Set the rate. Tokens above the new burst size are dropped; a debt remains."""
        self._rate = rate
        self._tokens = min(self._tokens, rate * self._burst_seconds)

    @property
    def tokens(self) -> float:
        """Available tokens; negative while the bucket is overdrawn."""
        now = self._clock()
        refilled = self._tokens + self._rate * (now - self._filled_at)
        self._tokens = min(refilled, self._rate * self._burst_seconds)
        self._filled_at = now
        return self._tokens

    def take(self, count: float) -> None:
        self._tokens -= count

    def wait(self) -> float:
        """Return the seconds until the debt is repaid; 0 if there is none."""
        tokens = self.tokens
        return -tokens / self._rate if tokens < 0 else 0.0


class Pacing:
    """Spaces pieces of work at `rate` units per second, without bursts."""

    __slots__ = ("_clock", "_due", "rate")

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self._clock = clock
        self._due = clock()

    def delay(self, size: float) -> float:
        """Add a piece; return the seconds until all earlier pieces are done at this rate."""
        now = self._clock()
        start = max(self._due, now)
        self._due = start + size / self.rate
        return start - now

    @property
    def remaining(self) -> float:
        """Seconds until all pieces are done at this rate."""
        return max(self._due - self._clock(), 0.0)
