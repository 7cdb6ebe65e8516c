"""Kafka's Rate and TokenBucket: how much was used lately, and how long to wait until that is within a bound.

Times are monotonic seconds. A rate is taken over the samples of the last windows, and over no less than all windows but
one: a client that was silent may use what it did not use, up to that many seconds of its quota, at once.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class Windows(NamedTuple):
    """Ten whole windows and the current one by default (quota.window.num, quota.window.size.seconds)."""

    number: int = 11
    seconds: float = 1.0

    @property
    def span(self) -> float:
        return self.number * self.seconds

    @property
    def shortest(self) -> float:
        """The shortest time that a rate is taken over."""
        return (self.number - 1) * self.seconds


class _Sample:
    __slots__ = ("last", "start", "value")

    def __init__(self, now: float) -> None:
        self.start = self.last = now
        self.value = 0.0


class SampledRate:
    """What was recorded, by windows of time."""

    __slots__ = ("_samples", "recorded", "windows")

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self._samples: deque[_Sample] = deque()
        self.recorded = 0.0  # in all samples, those included that no longer count

    def record(self, value: float, now: float) -> None:
        """A negative value takes back what was recorded a moment ago."""
        samples = self._samples
        if not samples or now - samples[-1].start >= self.windows.seconds:
            self._begin(now)
        sample = samples[-1]
        sample.value += value
        sample.last = now
        self.recorded += value

    def _begin(self, now: float) -> None:
        samples = self._samples
        samples.append(_Sample(now))
        # One more than there are windows: the oldest may reach into the time that is looked at.
        if len(samples) > self.windows.number + 1:
            samples.popleft()
        self.recorded = sum(sample.value for sample in samples)

    def _expire(self, now: float) -> None:
        samples, span = self._samples, self.windows.span
        while samples and now - samples[0].last >= span:
            self.recorded -= samples.popleft().value
        if not samples:
            self.recorded = 0.0

    def _elapsed(self, now: float) -> float:
        """The time that the rate is taken over."""
        number, seconds = self.windows
        elapsed = now - self._samples[0].start if self._samples else 0.0
        lacking = number - 1 - int(elapsed / seconds)
        return max(elapsed + max(lacking, 0) * seconds, 0.001)

    def total(self, now: float) -> float:
        self._expire(now)
        return self.recorded

    def rate(self, now: float) -> float:
        self._expire(now)
        return self.recorded / self._elapsed(now)

    def wait(self, bound: float, now: float) -> float:
        """Seconds after which the rate is at the bound again if nothing is used meanwhile; 0 if it is not above it."""
        self._expire(now)
        excess = self.recorded / bound - self._elapsed(now)
        return excess if excess > 0 else 0.0


class TokenBucket:
    """Tokens of a rate: it holds those of all windows, is full at first, and may be overdrawn."""

    __slots__ = ("_filled", "tokens", "windows")

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self.tokens = float("inf")
        self._filled = 0.0

    def refill(self, rate: float, now: float) -> float:
        """The tokens that are there now."""
        self.tokens = min(self.windows.span * rate, self.tokens + rate * (now - self._filled))
        self._filled = now
        return self.tokens

    def take(self, count: float) -> None:
        self.tokens -= count


class RecentAverage:
    """The average of what was recorded in the last half minute or the one before (Kafka's Avg)."""

    __slots__ = ("_began", "_count", "_former", "_sum")

    SECONDS = 30.0

    def __init__(self) -> None:
        self._began = 0.0
        self._sum, self._count = 0.0, 0
        self._former = (0.0, 0)

    def record(self, value: float, now: float) -> None:
        self._advance(now)
        self._sum += value
        self._count += 1

    def value(self, now: float) -> float:
        self._advance(now)
        total, count = self._sum + self._former[0], self._count + self._former[1]
        return total / count if count else 0.0

    def _advance(self, now: float) -> None:
        age = now - self._began
        if age < self.SECONDS:
            return
        self._former = (self._sum, self._count) if age < 2 * self.SECONDS else (0.0, 0)
        self._began, self._sum, self._count = now, 0.0, 0


class RecentMaximum:
    """The largest value that was recorded in the last half minute or the one before (Kafka's Max)."""

    __slots__ = ("_began", "_former", "_largest")

    def __init__(self) -> None:
        self._began = 0.0
        self._largest = self._former = 0.0

    def record(self, value: float, now: float) -> None:
        self._advance(now)
        self._largest = max(self._largest, value)

    def value(self, now: float) -> float:
        self._advance(now)
        return max(self._largest, self._former)

    def _advance(self, now: float) -> None:
        age = now - self._began
        if age >= RecentAverage.SECONDS:
            self._former = self._largest if age < 2 * RecentAverage.SECONDS else 0.0
            self._began, self._largest = now, 0.0
