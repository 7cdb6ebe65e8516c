"""Deletion of the objects of topics that are deleted or no longer tiered, by the controller.

The metadata list pending deletions (`remote_deletions`), so a new controller resumes them. Each manifest is marked as
deleted, then the objects are deleted, then the manifest. Objects referenced by snapshots are kept and checked again
later. Uploads in flight may arrive after the first pass, and a leader that is cut off may start new ones, so a second
pass follows soon and a last one after LINGER_SECONDS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from barnabas.cluster.image import MetadataImage, RemoteDeletion
from barnabas.common.clock import Clock
from barnabas.common.errors import KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import Uuid
from barnabas.controller import Controller, end_deletion
from barnabas.tiering.objects import FencedError, PartitionFolder
from barnabas.tiering.stores import ObjectStore, StoreError
from barnabas.tiering.writing import StoreBackoff, delete_partition

SOON_SECONDS = 5.0
LINGER_SECONDS = 600.0
"""Time between the first and the last pass. An upload without progress is aborted after a tenth of it."""

logger = safe_logger(__name__)


class RemoteDeletions:
    """Runs one task while this broker is the controller and deletions are pending."""

    def __init__(
        self,
        store: ObjectStore,
        controller: Controller,
        image: Callable[[], MetadataImage],
        clock: Clock,
        writers_ended: Callable[[], Awaitable[None]],
        linger_seconds: float = LINGER_SECONDS,
    ) -> None:
        self._store = store
        self._controller = controller
        self._image = image
        self._clock = clock
        self._writers_ended = writers_ended
        self._linger_seconds = linger_seconds
        self._first_look: dict[Uuid, float] = {}
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def follow(self) -> None:
        """Check for pending deletions after a metadata change, or after the store has become available."""
        if self._is_needed:
            self._news.set()
            if self._task is None:
                self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @property
    def _is_needed(self) -> bool:
        return self._controller.is_active and bool(self._image().remote_deletions)

    async def _run(self) -> None:
        backoff = StoreBackoff()
        try:
            while self._is_needed:
                self._news.clear()
                seconds = self._linger_seconds
                try:
                    if await self._poll():
                        seconds = min(SOON_SECONDS, seconds)
                    backoff.reset()
                except StoreError as error:
                    seconds = backoff.after(error)
                    logger.warning(
                        "cannot delete the objects of deleted topics: %s; retrying in %g s", error, seconds
                    )
                except KafkaError as error:
                    logger.info("cannot record the completed deletion of objects: %s", error)
                await self._wait(seconds)
        finally:
            self._task = None

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    async def _poll(self) -> bool:
        """Run one pass over all pending deletions; True if some of them are new. Raises the first error at the end."""
        failures: list[StoreError] = []
        known = len(self._first_look)
        await self._writers_ended()
        for deletion in list(self._image().remote_deletions.values()):
            try:
                await self._delete(deletion)
            except StoreError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return len(self._first_look) > known

    async def _delete(self, deletion: RemoteDeletion) -> None:
        now = self._clock.monotonic()
        first = self._first_look.setdefault(deletion.topic_id, now)
        kept = [
            index for index in range(deletion.partitions) if not await self._delete_partition(deletion, index)
        ]
        if kept:
            logger.info("%s: objects of %d partitions are retained for snapshots", deletion.name, len(kept))
        elif now - first >= self._linger_seconds:
            await self._controller.submit(lambda image: end_deletion(image, deletion.topic_id))
            self._first_look.pop(deletion.topic_id, None)

    async def _delete_partition(self, deletion: RemoteDeletion, index: int) -> bool:
        image = self._image()
        folder = PartitionFolder(image.cluster_id, deletion.name, deletion.topic_id, index)
        try:
            return await delete_partition(self._store, folder, image.incarnation)
        except FencedError as error:
            logger.warning("%s", error)
            return True
