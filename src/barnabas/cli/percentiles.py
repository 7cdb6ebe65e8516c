"""Latencies in little room: counts in buckets that are never more than a hundredth wide."""

from __future__ import annotations

import math
from collections import Counter

_GROWTH = math.log(1.01)


class Latencies:
    """Any number of measurements; percentiles are right to one in a hundred, the largest exactly."""

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.count = 0
        self.total = 0.0
        self.largest = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        self._buckets[math.ceil(math.log(max(seconds, 1e-6)) / _GROWTH)] += times
        self.count += times
        self.total += seconds * times
        self.largest = max(self.largest, seconds)

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """The time within which this part of the measurements lies."""
        wanted, seen = self.count * percent / 100, 0
        for bucket, times in sorted(self._buckets.items()):
            seen += times
            if seen >= wanted:
                return min(math.exp(bucket * _GROWTH), self.largest)
        return self.largest

    def milliseconds(self) -> dict[str, float]:
        """The figures that people compare."""
        figures = {
            f"p{percent:g}".replace(".", "_"): self.percentile(percent) for percent in (50, 95, 99, 99.9)
        }
        figures |= {"mean": self.mean, "max": self.largest}
        return {name: round(seconds * 1000, 3) for name, seconds in figures.items()}
