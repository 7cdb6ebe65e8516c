"""Retries of requests: the policy, which knows the retriable errors, and the retry loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from barnabas.client.errors import ClientError, is_retriable
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.retry import Backoff, Deadline

T = TypeVar("T")

MARKERS_DELAY = 0.02  # until the markers of the last transaction are written; Java's producer waits as long


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
            await asyncio.sleep(min(self._backoff.next_delay(), self.deadline.remaining))

    def reset(self) -> None:
        """Restart the deadline after progress."""
        self._backoff.reset()
        self.deadline = Deadline(self._seconds)


async def retry(
    attempt: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    recover: Callable[[Exception], Awaitable[object]] | None = None,
) -> T:
    """Result of the first successful attempt. `recover` runs before each further attempt and may raise."""
    while True:
        try:
            return await attempt()
        except (ClientError, KafkaError) as error:
            await policy.wait(error)
            if recover is not None:
                await recover(error)
