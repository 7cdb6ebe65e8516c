"""Traffic between a broker and its store, and the read quota."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.config.setting import MAX_LONG
from barnabas.security.quotas.rates import RecentAverage, RecentMaximum, SampledRate, TokenBucket, Windows


class Traffic:
    """Bytes to or from the store, and throttle time (Kafka's RLMQuotaMetrics)."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.rate = SampledRate(Windows())
        self._average = RecentAverage()
        self._maximum = RecentMaximum()

    def moved(self, size: int) -> None:
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


class ReadQuota:
    """`remote.log.manager.fetch.max.bytes.per.second`: all remote reads of a broker share one. A second's worth may be
    read at once; then reads wait until what was read too much is made up for."""

    def __init__(self, monotonic: Callable[[], float], bytes_per_second: float = MAX_LONG) -> None:
        self._monotonic = monotonic
        self._bucket = TokenBucket(Windows(number=1))
        self.bytes_per_second = bytes_per_second
        self.traffic = Traffic(monotonic)

    def wait(self) -> float:
        """Seconds until the next read may begin."""
        left = self._bucket.refill(self.bytes_per_second, self._monotonic())
        return max(-left / self.bytes_per_second, 0.0)

    def take(self, size: int) -> None:
        self._bucket.take(size)
        self.traffic.moved(size)
