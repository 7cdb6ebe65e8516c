"""How long to go on trying, and how long to wait between two attempts."""

from __future__ import annotations

import asyncio
import random
import time

# Kafka's defaults: retry.backoff.ms and retry.backoff.max.ms.
FIRST_DELAY = 0.1
LONGEST_DELAY = 1.0


class Deadline:
    """A moment after which there are no more attempts."""

    __slots__ = ("_end",)

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def remaining(self) -> float:
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self._end


class Backoff:
    """Waits that double up to a limit, with jitter so that many clients do not come back at once."""

    __slots__ = ("_attempts",)

    def __init__(self) -> None:
        self._attempts = 0

    def next_delay(self) -> float:
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(self._attempts, 10))
        self._attempts += 1
        return delay * random.uniform(0.8, 1.2)

    async def wait(self, deadline: Deadline) -> None:
        await asyncio.sleep(min(self.next_delay(), deadline.remaining))

    def reset(self) -> None:
        self._attempts = 0
