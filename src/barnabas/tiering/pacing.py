"""How fast segments are copied and read, and how long one waits after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from barnabas.config.setting import MAX_LONG
from barnabas.security.quotas.rates import (
    RecentAverage,
    RecentMaximum,
    SampledRate,
    TokenBucket,
    Windows,
)
from barnabas.tiering.store import StoreDeniedError

FIRST_WAIT_SECONDS = 1.0
FIRST_WAIT_IF_DENIED_SECONDS = 15.0
"""Rights and full buckets are mended by people."""
LONGEST_WAIT_SECONDS = 300.0


class Traffic:
    """How much goes to or comes from the store, and how long it was held back (Kafka's RLMQuotaMetrics)."""

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


class Pacer:
    """All copying of a broker shares one: each piece waits until those before it would have been sent at this rate.
    Unpaced copying stalls the loop for up to 150 ms; at 50 MB/s there is no difference to none."""

    def __init__(self, monotonic: Callable[[], float], bytes_per_second: float) -> None:
        self._monotonic = monotonic
        self.bytes_per_second = bytes_per_second
        self._free_at = 0.0
        self.traffic = Traffic(monotonic)

    async def take(self, size: int) -> None:
        now = self._monotonic()
        start = max(self._free_at, now)
        self._free_at = start + size / self.bytes_per_second
        self.traffic.moved(size)
        if start > now:
            self.traffic.held_back(start - now)
            await asyncio.sleep(start - now)


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


class Backoff:
    """Doubles from failure to failure, up to five minutes."""

    def __init__(self) -> None:
        self._next = 0.0

    def after(self, error: BaseException) -> float:
        """Seconds to wait now."""
        first = FIRST_WAIT_IF_DENIED_SECONDS if isinstance(error, StoreDeniedError) else FIRST_WAIT_SECONDS
        wait = max(self._next, first)
        self._next = min(2 * wait, LONGEST_WAIT_SECONDS)
        return wait

    def reset(self) -> None:
        self._next = 0.0
