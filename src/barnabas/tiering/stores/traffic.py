"""Traffic between a broker and its store, and the read quota."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.common.rates import TokenBucket
from barnabas.config.setting import MAX_LONG
from barnabas.security.quotas import RecentAverage, RecentMaximum, SampledRate, Windows


class Traffic:
    """Bytes to or from the store, and throttle time (Kafka's RLMQuotaMetrics)."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.rate = SampledRate(Windows())
        self._average = RecentAverage()
        self._maximum = RecentMaximum()

    def moved(self, size: float) -> None:
        self.rate.record(size, self._monotonic())

    def held_back(self, seconds: float) -> None:
        now = self._monotonic()
        self._average.record(seconds * 1000, now)
        self._maximum.record(seconds * 1000, now)

    @property
    def bytes_per_second(self) -> float:
        return self.rate.rate(self._monotonic())

    @property
    def average_wait_ms(self) -> float:
        return self._average.value(self._monotonic())

    @property
    def longest_wait_ms(self) -> float:
        return self._maximum.value(self._monotonic())


class ReadQuota(TokenBucket):
    """`remote.log.manager.fetch.max.bytes.per.second`, shared by all remote reads of a broker. Allows bursts of one
    second; then reads wait until the excess is repaid."""

    def __init__(self, monotonic: Callable[[], float], bytes_per_second: float = MAX_LONG) -> None:
        super().__init__(bytes_per_second, clock=monotonic)
        self.traffic = Traffic(monotonic)

    def take(self, count: float) -> None:
        super().take(count)
        self.traffic.moved(count)
