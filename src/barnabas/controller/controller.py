"""The only writer of the metadata log."""

from __future__ import annotations

from typing import TypeVar

from barnabas.cluster import (
    CommitCallback,
    MetadataFollower,
    MetadataStore,
    SerialExecutor,
    StaleControllerError,
)
from barnabas.cluster.deltas import ControllerElected, Delta, apply
from barnabas.cluster.features import in_terms_of
from barnabas.cluster.image import MetadataImage
from barnabas.common.errors import KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.controller.decision import Decision

T = TypeVar("T")

logger = safe_logger(__name__)

NOT_ELECTED = -1


class Controller:
    """Runs decisions one after the other: each sees the image that the previous one left.

    Every broker has one; it decides only from `take_over` to `resign`. Before the result of a decision is
    returned, its
    log entry has been applied on this broker and every `on_commit` callback has run.
    """

    def __init__(self, store: MetadataStore, node_id: int, metadata: MetadataFollower | None = None) -> None:
        self.metadata = metadata or MetadataFollower(store)
        self.on_commit: list[CommitCallback] = self.metadata.on_commit
        self._store = store
        self._node_id = node_id
        self._epoch = NOT_ELECTED
        self._wanted = NOT_ELECTED
        self._in_doubt = False
        self._writes = SerialExecutor()

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    @property
    def is_active(self) -> bool:
        """True while this broker is the controller."""
        return self._epoch != NOT_ELECTED

    async def start(self) -> MetadataImage:
        """Load the log and begin a new controller epoch, on a single node."""
        await self.metadata.start()
        await self.take_over(self.image.controller_epoch + 1)
        return self.image

    async def stop(self) -> None:
        """Finish a decision that is being stored; cancel those that wait for their own entry."""
        self.resign()
        self.metadata.stop()
        await self._writes.run(self._store.close)

    async def take_over(self, epoch: int) -> None:
        """Catch up with the log after an election, and write the new controller epoch to it."""
        self._wanted = epoch
        await self._writes.run(lambda: self._take_over(epoch))

    async def _take_over(self, epoch: int) -> None:
        await self._catch_up()
        if self._wanted != epoch:
            raise StaleControllerError(f"this broker has given up controller epoch {epoch}")
        self._epoch = epoch
        try:
            await self._commit([ControllerElected(self._node_id, epoch)])
        except BaseException:
            self._epoch = NOT_ELECTED
            raise

    def resign(self) -> None:
        """Stop deciding: another broker is the controller, or none."""
        self._epoch = self._wanted = NOT_ELECTED

    async def submit(self, decision: Decision[T], *, refusals_count: bool = False) -> T:
        """Decide on the newest image, store the deltas, and return the result.

        Exceptions of the decision reach the caller and change nothing. A decision without deltas may
        come from a controller
        that was replaced without knowing; where the caller acts on it (`refusals_count`), the store
        verifies that the image
        was the newest.
        """
        return await self._writes.run(lambda: self._decide(decision, refusals_count))

    async def _decide(self, decision: Decision[T], refusals_count: bool) -> T:
        if not self.is_active:
            raise StaleControllerError("this broker is not the controller")
        if self._in_doubt:
            await self._catch_up()
        deltas, result = decision(self.image)
        if deltas:
            await self._commit(deltas)
        elif refusals_count:
            await self._check_image()
        return result

    async def _check_image(self) -> None:
        if await self._store.head() != self.image.offset:
            self._in_doubt = True
            raise StaleControllerError("another controller has written to the metadata log")

    async def _catch_up(self) -> None:
        await self.metadata.reached(await self._store.head())
        self._in_doubt = False

    async def _commit(self, deltas: list[Delta]) -> None:
        deltas = in_terms_of(self.image, deltas)
        # Applied before it is stored: deltas that do not fit the image must never reach the log.
        apply(self.image, deltas)
        try:
            offset = await self._store.append(self.image.offset, self._epoch, deltas)
        except KafkaError:
            # The entry may have been stored, or another controller's entry was: read the log before the next decision.
            self._in_doubt = True
            raise
        image = await self.metadata.reached(offset)
        if self._store.wants_snapshot:
            await self._store.save_snapshot(image)
