"""Retries: deadlines, exponential backoff and the retry loop."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from barnabas.client.errors import ClientError, is_retriable
from barnabas.common.errors import ErrorCode, KafkaError

T = TypeVar("T")

# Kafka's defaults: retry.backoff.ms and retry.backoff.max.ms.
FIRST_DELAY = 0.1
MAX_DELAY = 1.0
MARKERS_DELAY = 0.02  # until the markers of the last transaction are written; Java's producer waits as long


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
    """Exponential backoff with a limit and jitter, so that clients do not reconnect at once."""

    __slots__ = ("_attempts",)

    def __init__(self) -> None:
        self._attempts = 0

    def next_delay(self) -> float:
        delay = min(MAX_DELAY, FIRST_DELAY * 2.0 ** min(self._attempts, 10))
        self._attempts += 1
        return delay * random.uniform(0.8, 1.2)

    async def wait(self, deadline: Deadline) -> None:
        await asyncio.sleep(min(self.next_delay(), deadline.remaining))

    def reset(self) -> None:
        self._attempts = 0


class RetryPolicy:
    """Decides after each failure: wait before the next attempt, or raise."""

    def __init__(self, seconds: float, retriable: Callable[[Exception], bool] = is_retriable) -> None:
        self._seconds = seconds
        self._retriable = retriable
        self._backoff = Backoff()
        self.deadline = Deadline(seconds)

    async def wait(self, error: Exception) -> None:
        """Raises the error after the deadline, or when another attempt cannot help."""
        if self.deadline.passed or not self._retriable(error):
            raise error
        if isinstance(error, KafkaError) and error.code == ErrorCode.CONCURRENT_TRANSACTIONS:
            await asyncio.sleep(MARKERS_DELAY)
        else:
            await self._backoff.wait(self.deadline)

    def reset(self) -> None:
        """Restart the deadline after progress."""
        self._backoff.reset()
        self.deadline = Deadline(self._seconds)


async def retry(
    attempt: Callable[[], Awaitable[T]],
    patience: RetryPolicy,
    recover: Callable[[Exception], Awaitable[object]] | None = None,
) -> T:
    """Result of the first successful attempt. `recover` runs before each further attempt and may raise."""
    while True:
        try:
            return await attempt()
        except (ClientError, KafkaError) as error:
            await patience.wait(error)
            if recover is not None:
                await recover(error)
