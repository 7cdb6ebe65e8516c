"""Reads from the store with retries and a circuit breaker.

Three attempts of ten seconds, thirty seconds in total. After that the store counts as down: one call per second is
attempted, all others fail immediately, until one succeeds. A missing object or a refusal is a response: the store is
up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from barnabas.common.clock import Clock
from barnabas.common.files import Bytes
from barnabas.common.retry import delay_after
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.tiering.stores.store import ObjectStore, StoreError, StoreUnavailableError, Versioned

ATTEMPTS = 3
ATTEMPT_SECONDS = 10.0
SECONDS_IN_ALL = 30.0
FIRST_PAUSE = 0.1
"""Delay before the second attempt, doubled each time."""
TRIAL_SECONDS = 1.0
"""Interval of attempts while the store is down."""

logger = rate_limited_logger(__name__)
T = TypeVar("T")


class StoreReader:
    """Shared by all remote logs of a broker, including the state of the circuit breaker."""

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        max_concurrent: int = 10,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        attempt_seconds: float = ATTEMPT_SECONDS,
    ) -> None:
        self._store = store
        self._clock = clock
        self._slots = asyncio.Semaphore(max_concurrent)
        self._sleep = sleep
        self._attempt_seconds = attempt_seconds
        self._next_trial: float | None = None  # set while the store is down
        self.requests = 0
        self.failures = 0

    def allow(self, max_concurrent: int) -> None:
        """Set the number of concurrent requests; requests in progress do not count against the new limit."""
        self._slots = asyncio.Semaphore(max_concurrent)

    @property
    def is_down(self) -> bool:
        return self._next_trial is not None

    async def get(self, key: str) -> Versioned:
        """Read a whole small object."""
        return await self._with_retries(lambda: self._store.get(key), key)

    async def get_range(self, key: str, start: int, end: int) -> Bytes:
        """Read the bytes [start, end) of an object."""
        return await self._with_retries(lambda: self._store.get_range(key, start, end), key)

    async def _with_retries(self, call: Callable[[], Awaitable[T]], key: str) -> T:
        attempts = self._allowed_attempts(key)
        until = self._clock.monotonic() + SECONDS_IN_ALL
        for attempt in range(1, attempts + 1):
            try:
                answer = await self._attempt(call, until)
            except (StoreUnavailableError, TimeoutError) as error:
                self.failures += 1
                if attempt == attempts or self._clock.monotonic() >= until:
                    raise self._note_down(key, error) from error
                await self._sleep(delay_after(attempt - 1, FIRST_PAUSE))
            except StoreError:
                self._note_up()  # an error response also shows that the store is up
                raise
            else:
                self._note_up()
                return answer
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, call: Callable[[], Awaitable[T]], until: float) -> T:
        seconds = min(self._attempt_seconds, max(until - self._clock.monotonic(), 0.0))
        async with self._slots, asyncio.timeout(seconds):
            self.requests += 1
            return await call()

    # -- circuit breaker ----------------------------------------------------------------------------

    def _allowed_attempts(self, key: str) -> int:
        if self._next_trial is None:
            return ATTEMPTS
        now = self._clock.monotonic()
        if now < self._next_trial:
            raise StoreUnavailableError(f"cannot read {key}: the object store is down")
        self._next_trial = now + TRIAL_SECONDS
        return 1

    def _note_down(self, key: str, error: Exception) -> StoreUnavailableError:
        if self._next_trial is None:
            logger.warning("the object store does not respond (%s: %s); retrying once a second", key, error)
        self._next_trial = self._clock.monotonic() + TRIAL_SECONDS
        reason = str(error) or f"no response within {self._attempt_seconds:g} s"
        return StoreUnavailableError(f"cannot read {key} from the object store: {reason}")

    def _note_up(self) -> None:
        if self._next_trial is not None:
            self._next_trial = None
            logger.info("the object store responds again")
