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


class MetadataFollower:
    """Applies entries one after the other. An entry counts as applied when every `on_commit` callback has
    acted on it, those that take time included; the next entry waits for that."""

    def __init__(self, store: MetadataStore) -> None:
        self.image: MetadataImage = EMPTY_IMAGE
        self.on_commit: list[CommitCallback] = []
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
        except Exception:
            logger.exception("the metadata log cannot be followed any further")
        finally:
            self._applying = None

    async def _apply(self, offset: int, deltas: list[Delta]) -> None:
        if offset != self.image.offset + 1:
            raise ValueError(f"entry {offset} came after entry {self.image.offset} of the metadata log")
        self.image = apply(self.image, deltas)
        for callback in self.on_commit:
            try:
                acting = callback(self.image, deltas)
                if acting is not None:
                    await acting
            except Exception:
                # What is committed stays committed; the other callbacks must still hear of it.
                logger.exception("a change of the metadata could not be acted on")
        self._tell_waiting()

    def _tell_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for predicate, future in waiting:
            if future.done():
                continue
            if predicate(self.image):
                future.set_result(None)
            else:
                self._waiting.append((predicate, future))
