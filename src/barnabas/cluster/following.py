"""Every broker follows the metadata log: entry by entry, in order, it gets the same images as all others."""

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
"""Between two of them. What fails for want of memory or of a thread may succeed a moment later."""


class MetadataFollower:
    """Applies entries one after the other. An entry counts as applied when every `on_commit` callback has
    acted on it, those that take time included; the next entry waits for that.

    A callback that raises is called again. If it still does, or an entry cannot be applied, no later entry is applied
    either, and `on_failure` is called: who goes on with an image that has come to a halt believes in leaders, settings
    and rights of the past."""

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
        """Nothing more is applied, and nobody waits for it."""
        self._has_stopped = True
        if self._applying is not None:
            self._applying.cancel()
        for _, future in self._waiting:
            future.cancel()

    async def until(self, predicate: Predicate) -> MetadataImage:
        """Wait until an applied image is as wanted."""
        if not predicate(self.image):
            if self._has_stopped:
                raise KafkaError(
                    ErrorCode.NOT_CONTROLLER, "this broker stops, and hears no more of the metadata"
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
            logger.critical("entry %d of the metadata log cannot be applied", offset, exc_info=error)
            self._fail()
        finally:
            self._applying = None

    def _fail(self) -> None:
        self._has_stopped = True
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(
                    KafkaError(ErrorCode.NOT_CONTROLLER, "this broker cannot follow the metadata any further")
                )
        self.on_failure()

    async def _apply(self, offset: int, deltas: list[Delta]) -> None:
        if offset != self.image.offset + 1:
            raise ValueError(f"entry {offset} came after entry {self.image.offset} of the metadata log")
        self.image = apply(self.image, deltas)
        failures = [error for callback in self.on_commit if (error := await self._act(callback, deltas))]
        self._notify_waiting()  # what is committed stays committed
        if failures:
            raise failures[0]

    async def _act(self, callback: CommitCallback, deltas: list[Delta]) -> Exception | None:
        """The last error of a callback that does not succeed; the others must still hear of the entry."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                acting = callback(self.image, deltas)
                if acting is not None:
                    await acting
                return None
            except Exception as error:
                failure = error
                logger.exception(
                    "entry %d of the metadata log could not be acted on (attempt %d of %d)",
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
