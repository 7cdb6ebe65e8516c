"""Upload rate limit, backoff after failures, and named steps for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum

from barnabas.common.rates import Pacing
from barnabas.common.retry import Backoff
from barnabas.tiering.stores.store import StoreDeniedError
from barnabas.tiering.stores.traffic import Traffic

# -- Named steps of copying and expiration: tests and the simulator stop a writer at each of them ------


class Step(StrEnum):
    CHOSEN = "U1"
    FIRST_PART = "U2"
    WHOLE = "U3"
    CAS_SENT = "U4"
    ANSWERED = "U5"
    NOTED = "U6"
    LOG_START_RAISED = "D1"
    LISTED_AS_GARBAGE = "D2"
    OBJECTS_DELETED = "D3"
    GARBAGE_COLLECTED = "D4"


At = Callable[[Step], None]
"""Callback for each step; tests raise in it."""


def nowhere(_: Step) -> None:
    pass


FIRST_WAIT_SECONDS = 1.0
FIRST_WAIT_IF_DENIED_SECONDS = 15.0
"""For missing permissions and full buckets, which need an operator."""
MAX_WAIT_SECONDS = 300.0
DEFAULT_UPLOADS = 10  # remote.log.manager.copier.thread.pool.size


class UploadLimiter:
    """Upload rate limit shared by all copiers of a broker: each piece waits until the earlier ones would have been sent
    at this rate. Unpaced copying stalls the loop for up to 150 ms; at 50 MB/s no stall is measurable.

    `uploads` limits concurrent uploads. Each holds several parts of 16 MiB in memory."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        bytes_per_second: float,
        max_uploads: int = DEFAULT_UPLOADS,
    ) -> None:
        self._pacing = Pacing(bytes_per_second, monotonic)
        self._max_uploads = max_uploads
        self.uploads = asyncio.Semaphore(max_uploads)
        self.traffic = Traffic(monotonic)

    def allow(self, bytes_per_second: float, max_uploads: int) -> None:
        """Set new limits. Uploads in progress do not count against the new limit."""
        self._pacing.rate = bytes_per_second
        if max_uploads != self._max_uploads:
            self._max_uploads = max_uploads
            self.uploads = asyncio.Semaphore(max_uploads)

    async def take(self, size: int) -> None:
        delay = self._pacing.delay(size)
        self.traffic.moved(size)
        if delay:
            self.traffic.held_back(delay)
            await asyncio.sleep(delay)


class StoreBackoff:
    """Delays after failures of the object store: doubled up to five minutes."""

    def __init__(self) -> None:
        self._backoff = Backoff(FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS, jitter=0)

    def after(self, error: BaseException) -> float:
        """Return the seconds to wait now."""
        is_denied = isinstance(error, StoreDeniedError)
        return self._backoff.next_delay(FIRST_WAIT_IF_DENIED_SECONDS if is_denied else 0.0)

    def reset(self) -> None:
        self._backoff.reset()
