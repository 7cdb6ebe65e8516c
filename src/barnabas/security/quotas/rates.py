"""Kafka's Rate: recent usage, and the throttle time until it is within a bound.

Times are monotonic seconds. A rate covers the samples of the last windows, and at least all windows but one: an idle
client may burst up to that many seconds of its quota.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class Windows(NamedTuple):
    """Default: ten complete windows and the current one (quota.window.num, quota.window.size.seconds)."""

    number: int = 11
    seconds: float = 1.0

    @property
    def span(self) -> float:
        return self.number * self.seconds

    @property
    def shortest(self) -> float:
        """Shortest period of a rate."""
        return (self.number - 1) * self.seconds


class _Sample:
    __slots__ = ("last", "start", "value")

    def __init__(self, now: float) -> None:
        self.start = self.last = now
        self.value = 0.0


class SampledRate:
    """Rate of recorded values over time windows."""

    __slots__ = ("_samples", "recorded", "windows")

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self._samples: deque[_Sample] = deque()
        self.recorded = 0.0  # in all samples, including expired ones

    def record(self, value: float, now: float) -> None:
        """Record a value; a negative one reverts an earlier record."""
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
        # One more than the number of windows: the oldest sample may overlap the measured period.
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
        """Period of the rate."""
        number, seconds = self.windows
        elapsed = now - self._samples[0].start if self._samples else 0.0
        missing = number - 1 - int(elapsed / seconds)
        return max(elapsed + max(missing, 0) * seconds, 0.001)

    def total(self, now: float) -> float:
        self._expire(now)
        return self.recorded

    def rate(self, now: float) -> float:
        self._expire(now)
        return self.recorded / self._elapsed(now)

    def wait(self, bound: float, now: float) -> float:
        """Seconds without usage until the rate is back at the bound; 0 if it is not above it."""
        self._expire(now)
        excess = self.recorded / bound - self._elapsed(now)
        return excess if excess > 0 else 0.0


class RecentAverage:
    """Average of the values recorded in the last 30 to 60 seconds (Kafka's Avg)."""

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
    """Maximum of the values recorded in the last 30 to 60 seconds (Kafka's Max)."""

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
