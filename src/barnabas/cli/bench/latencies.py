"""Percentiles of any number of measurements in bounded memory."""

from __future__ import annotations

import math
from collections import Counter

_GROWTH = math.log(1.01)  # buckets are 1 % wide
PERCENTILES = (50, 95, 99, 99.9)


class Latencies:
    """Percentiles have an error of at most 1 %; the maximum is exact."""

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.count = 0
        self.total = 0.0
        self.largest = 0.0

    def add(self, seconds: float) -> None:
        self._buckets[math.ceil(math.log(max(seconds, 1e-6)) / _GROWTH)] += 1
        self.count += 1
        self.total += seconds
        self.largest = max(self.largest, seconds)

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """Latency at this percentile."""
        wanted, seen = self.count * percent / 100, 0
        for bucket, times in sorted(self._buckets.items()):
            seen += times
            if seen >= wanted:
                return min(math.exp(bucket * _GROWTH), self.largest)
        return self.largest

    def histogram(self, edges: list[float]) -> list[int]:
        """Number of measurements between consecutive edges; the last bucket includes all larger ones."""
        counts = [0] * len(edges)
        for bucket, times in self._buckets.items():
            seconds = math.exp(bucket * _GROWTH)
            index = next((at for at, edge in enumerate(edges) if seconds <= edge), len(edges) - 1)
            counts[index] += times
        return counts

    def milliseconds(self) -> dict[str, float]:
        figures = {f"p{percent:g}".replace(".", "_"): self.percentile(percent) for percent in PERCENTILES}
        figures |= {"mean": self.mean, "max": self.largest}
        return {name: round(seconds * 1000, 3) for name, seconds in figures.items()}
