"""The one writer of the metadata log."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

from barnabas.cluster.deltas import ControllerElected, Delta, apply
from barnabas.cluster.image import EMPTY_IMAGE, MetadataImage
from barnabas.cluster.store import MetadataStore
from barnabas.cluster.turns import Turns
from barnabas.controller.decision import Decision

T = TypeVar("T")
CommitCallback: TypeAlias = Callable[[MetadataImage, list[Delta]], Awaitable[None] | None]

logger = logging.getLogger(__name__)


class Controller:
    """Takes decisions one after the other: each sees the image that the one before it left.

    A decision that is in the log is applied to the image and told to every `on_commit` callback, in
    order, before its result is returned: whoever awaited `submit` finds the broker acting on it.
    """

    def __init__(self, store: MetadataStore, node_id: int) -> None:
        self.image: MetadataImage = EMPTY_IMAGE
        self.on_commit: list[CommitCallback] = []
        self._store = store
        self._node_id = node_id
        self._epoch = 0
        self._turns = Turns()

    async def start(self) -> MetadataImage:
        """Load the log and begin a controller epoch of our own."""
        self.image = await self._store.load()
        self._epoch = self.image.controller_epoch + 1
        await self.submit(lambda image: ([ControllerElected(self._node_id, self._epoch)], None))
        return self.image

    async def stop(self) -> None:
        await self._turns.run(self._store.close)

    async def submit(self, decision: Decision[T]) -> T:
        """Decide on the newest image, store what was decided, and return the result.

        Whatever the decision raises reaches the caller and changes nothing.
        """
        return await self._turns.run(lambda: self._decide(decision))

    async def _decide(self, decision: Decision[T]) -> T:
        deltas, result = decision(self.image)
        if deltas:
            await self._commit(deltas)
        return result

    async def _commit(self, deltas: list[Delta]) -> None:
        # Applied before it is stored: deltas that do not fit the image must never get into the log.
        image = apply(self.image, deltas)
        await self._store.append(self.image.offset, self._epoch, deltas)
        self.image = image
        await self._tell(deltas)
        if self._store.wants_snapshot:
            await self._store.save_snapshot(image)

    async def _tell(self, deltas: list[Delta]) -> None:
        for callback in self.on_commit:
            try:
                acting = callback(self.image, deltas)
                if acting is not None:
                    await acting
            except Exception:
                # What is committed stays committed; the other callbacks must still hear of it.
                logger.exception("a change of the metadata could not be acted on")
