"""Snapshots of the cluster state in the object store, for `barnabas cluster restore`.

At start and every `barnabas.remote.state.interval.ms` the controller writes its metadata, and each group coordinator
the committed offsets of its partitions, if they have changed. Requests do not wait for it. Once the cluster has been
restored elsewhere with a later incarnation, this one stops writing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import NamedTuple

from barnabas.cluster import MetadataEntry, encode_entry, snapshot_of
from barnabas.cluster.image import MetadataImage
from barnabas.common.clock import Clock
from barnabas.common.cooperative import pieces
from barnabas.common.safe_logging import safe_logger
from barnabas.common.threads import ThreadBackground
from barnabas.common.types import uuid_to_text
from barnabas.config.broker import BrokerConfig
from barnabas.controller import Controller
from barnabas.groups import GroupCoordinator, Offsets, OffsetStore
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS
from barnabas.replication import ReplicaManager
from barnabas.tiering.objects import group_state_key
from barnabas.tiering.restoring import (
    SavedGroupOffset,
    SavedGroupState,
    begin_incarnation,
    encode_group_state,
    read_incarnation,
    write_cluster_state,
    write_group_state,
)
from barnabas.tiering.stores import ObjectStore, StoreError

GROUPS_IN_A_STEP = 200
FIRST_SNAPSHOT_SECONDS = 1.0  # after the start, and between attempts until one succeeds

logger = safe_logger(__name__)


class _Written(NamedTuple):
    leader_epoch: int
    log_end: int
    version: str | None


_NOTHING = _Written(-1, -1, None)


class StateRecorder:
    """Writes snapshots periodically; `run` is the task."""

    def __init__(
        self,
        store: ObjectStore,
        controller: Controller,
        replicas: ReplicaManager,
        threads: ThreadBackground,
        config: Callable[[], BrokerConfig],
        clock: Clock,
    ) -> None:
        self._store = store
        self._controller = controller
        self._replicas = replicas
        self._in_thread = threads.call
        self._config = config
        self._clock = clock
        self._has_begun = False
        self._has_recorded = False
        self._image: tuple[int, int] | None = None  # incarnation and offset of the last snapshot
        self._groups: dict[int, _Written] = {}  # by partition

    async def run(self, groups: GroupCoordinator, may_write: Callable[[], bool]) -> None:
        """Write snapshots until the store has a later incarnation."""
        while True:
            await asyncio.sleep(self._pause())
            image = self._controller.image
            if not image.cluster_id or not may_write():
                continue
            try:
                if await self._is_over(image):
                    logger.error(
                        "cluster %s was restored from the object store elsewhere: no more snapshots are written here",
                        "",
                        image.cluster_id,
                    )
                    return
                await self.record(image, groups)
                self._has_recorded = True
            except StoreError as error:
                logger.warning("cannot write the cluster snapshot: %s", error)

    def _pause(self) -> float:
        """Seconds until the next snapshot. The first is written immediately: a restore needs one."""
        interval: float = self._config()["barnabas.remote.state.interval.ms"] / 1000
        return interval if self._has_recorded else min(interval, FIRST_SNAPSHOT_SECONDS)

    async def record(self, image: MetadataImage, groups: GroupCoordinator) -> None:
        """Write the changes since the last snapshot."""
        if self._controller.is_active and self._image != (image.incarnation, image.offset):
            data = await self._in_thread(lambda: encode_image(image))
            await write_cluster_state(self._store, image.cluster_id, image.incarnation, image.offset, data)
            self._image = image.incarnation, image.offset
        await self._record_groups(image, groups)

    async def _is_over(self, image: MetadataImage) -> bool:
        if not self._has_begun:
            await begin_incarnation(self._store, image.cluster_id, self._clock.now_ms())
            self._has_begun = True
        return await read_incarnation(self._store, image.cluster_id) > image.incarnation

    async def _record_groups(self, image: MetadataImage, groups: GroupCoordinator) -> None:
        led_partition = self._replicas.by_name.get(CONSUMER_OFFSETS, {})
        for index, shard in list(groups.runtime.shards()):
            partition = led_partition.get(index)
            if partition is not None and partition.is_leader:
                # Up to the high watermark: later records may be lost in a leader change.
                await self._record_shard(
                    image, index, shard.offsets, partition.leader_epoch, partition.log.high_watermark
                )

    async def _record_shard(
        self, image: MetadataImage, index: int, store: OffsetStore, leader_epoch: int, end: int
    ) -> None:
        before = self._groups.get(index, _NOTHING)
        if (before.leader_epoch, before.log_end) == (leader_epoch, end):
            return
        offsets = [
            each
            async for some in _in_chunks(store.groups())
            for group in some
            for each in _of_group(group, store.of_group(group))
        ]
        state = SavedGroupState(leader_epoch, end, tuple(offsets))
        data = await self._in_thread(lambda: encode_group_state(state))
        key = group_state_key(image.cluster_id, image.incarnation, index)
        known = before.version if before.leader_epoch == leader_epoch else None
        version = await write_group_state(self._store, key, leader_epoch, data, known)
        if version is None:
            self._groups.pop(index, None)
        else:
            self._groups[index] = _Written(leader_epoch, end, version)


async def _in_chunks(groups: Iterable[str]) -> AsyncIterator[Iterable[str]]:
    for some in pieces(groups, GROUPS_IN_A_STEP):
        yield some
        await asyncio.sleep(0)


def _of_group(group: str, offsets: Offsets) -> Iterator[SavedGroupOffset]:
    for tp, committed in list(offsets.items()):
        yield SavedGroupOffset(
            group,
            tp.topic,
            tp.partition,
            committed.offset,
            committed.leader_epoch,
            committed.metadata,
            committed.commit_ms,
            committed.expire_ms,
            uuid_to_text(committed.topic_id),
        )


def encode_image(image: MetadataImage) -> bytes:
    """Encode the whole image as a single entry of the metadata log."""
    return encode_entry(MetadataEntry(image.offset, image.controller_epoch, list(snapshot_of(image))))
