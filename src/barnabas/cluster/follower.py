"""Application of the metadata log: every broker applies the same entries in order and gets the same images."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from barnabas.cluster.deltas import Delta, apply
from barnabas.cluster.image import EMPTY_IMAGE, MetadataImage
from barnabas.cluster.store import MetadataStore
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import safe_logger

CommitCallback: TypeAlias = Callable[[MetadataImage, list[Delta]], Awaitable[None] | None]
Predicate: TypeAlias = Callable[[MetadataImage], bool]

logger = safe_logger(__name__)

ATTEMPTS = 5
RETRY_SECONDS = 1.0
"""Between attempts. A failure due to lack of memory or threads may be temporary."""


class MetadataFollower:
    """Applies entries one by one. An entry counts as applied when all `on_commit` callbacks, also asynchronous ones,
    have finished; the next entry waits for that.

    A callback that raises is retried. If all attempts fail, or an entry cannot be applied, no later entry is applied,
    and `on_failure` is called: a broker with an outdated image would use old leaders, configs and ACLs."""

    def __init__(self, store: MetadataStore) -> None:
        self.image: MetadataImage = EMPTY_IMAGE
        self.on_commit: list[CommitCallback] = []
        self.on_failure: Callable[[], None] = lambda: None
        self._store = store
        self._arrived: deque[tuple[int, list[Delta]]] = deque()
        self._applying: asyncio.Task[None] | None = None
        self._waiting: list[tuple[Predicate, asyncio.Future[None]]] = []
        self._has_stopped = False

    async def start(self) -> MetadataImage:
        self.image = await self._store.load()
        self._store.follow(self._entry)
        return self.image

    def stop(self) -> None:
        """Stop applying entries and cancel all waiters."""
        self._has_stopped = True
        if self._applying is not None:
            self._applying.cancel()
        for _, future in self._waiting:
            future.cancel()

    async def until(self, predicate: Predicate) -> MetadataImage:
        """Wait for an applied image that satisfies the predicate."""
        if not predicate(self.image):
            if self._has_stopped:
                raise KafkaError(
                    ErrorCode.NOT_CONTROLLER, "this broker is stopping and no longer applies metadata"
                )
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((predicate, future))
            await future
        return self.image

    async def reached(self, offset: int) -> MetadataImage:
        return await self.until(lambda image: image.offset >= offset)

    def _entry(self, offset: int, deltas: list[Delta]) -> None:
        self._arrived.append((offset, deltas))
        if self._applying is None and not self._has_stopped:
            self._applying = asyncio.ensure_future(self._apply_arrived())

    async def _apply_arrived(self) -> None:
        try:
            while self._arrived:
                offset, deltas = self._arrived.popleft()
                if offset > self.image.offset:
                    await self._apply(offset, deltas)
        except Exception as error:
            logger.critical("cannot apply entry %d of the metadata log", offset, exc_info=error)
            self._fail()
        finally:
            self._applying = None

    def _fail(self) -> None:
        self._has_stopped = True
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(
                    KafkaError(ErrorCode.NOT_CONTROLLER, "this broker can no longer apply metadata")
                )
        self.on_failure()

    async def _apply(self, offset: int, deltas: list[Delta]) -> None:
        if offset != self.image.offset + 1:
            raise ValueError(f"entry {offset} of the metadata log follows entry {self.image.offset}")
        self.image = apply(self.image, deltas)
        failures = [error for callback in self.on_commit if (error := await self._act(callback, deltas))]
        self._notify_waiting()  # even after a failure: the entry is committed
        if failures:
            raise failures[0]

    async def _act(self, callback: CommitCallback, deltas: list[Delta]) -> Exception | None:
        """Call a callback, with retries; return the last error instead of raising it, as the others must be called."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                awaitable = callback(self.image, deltas)
                if awaitable is not None:
                    await awaitable
                return None
            except Exception as error:
                failure = error
                logger.exception(
                    "a callback failed for entry %d of the metadata log (attempt %d of %d)",
                    self.image.offset,
                    attempt,
                    ATTEMPTS,
                )
            if attempt < ATTEMPTS:
                await asyncio.sleep(RETRY_SECONDS)
        return failure

    def _notify_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for predicate, future in waiting:
            if future.done():
                continue
            if predicate(self.image):
                future.set_result(None)
            else:
                self._waiting.append((predicate, future))
