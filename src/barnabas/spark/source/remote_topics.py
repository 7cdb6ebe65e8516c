"""Requests of the driver to an object store: manifests, and the segments of a range of offsets. No broker is needed.

A stream checks for new segments at most every ten seconds: brokers upload a segment when it is full, or after an hour.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from barnabas.client.offsets import OffsetRange
from barnabas.common.types import TopicPartition, uuid_to_text
from barnabas.protocol.internal_topics import INTERNAL_TOPICS
from barnabas.spark.remote_settings import RemoteSettings
from barnabas.spark.source.offsets import EARLIEST, LATEST, Offsets
from barnabas.spark.source.settings import TopicSelection
from barnabas.spark.source.topics import AssignedPartitions, chosen, matching
from barnabas.spark.store_link import StoreLink, store_link
from barnabas.tiering import snapshot_topics
from barnabas.tiering.objects import SegmentEntry
from barnabas.tiering.reading import (
    BucketError,
    BucketPartition,
    TopicFolder,
    by_name,
    find_cluster,
    find_topics,
    read_partitions,
    select_topics,
)
from barnabas.tiering.reading.segment_ranges import entries_between, offset_for_timestamp

POLL_SECONDS = 10.0


class StoredRange(NamedTuple):
    """A range that is in the store, and the segments that hold it."""

    wanted: OffsetRange
    partition: BucketPartition
    entries: list[SegmentEntry]


class RemoteTopics:
    """Topics of one subscription, with the manifests of the last poll."""

    def __init__(self, link: StoreLink, remote: RemoteSettings, subscription: TopicSelection) -> None:
        self._link = link
        self._remote = remote
        self._subscription = subscription
        self._partitions: dict[TopicPartition, BucketPartition] = {}
        self._looked = float("-inf")

    def assigned(self, *, recent: bool = False) -> AssignedPartitions:
        if not recent or time.monotonic() - self._looked >= POLL_SECONDS:
            self._look()
        partitions = chosen(list(self._partitions), self._subscription)
        ids = {tp.topic: uuid_to_text(self._partitions[tp].folder.topic_id) for tp in partitions}
        return AssignedPartitions(partitions, ids)

    def offsets_at(self, timestamps: Offsets) -> Offsets:
        if any(tp not in self._partitions for tp in timestamps):
            self._look()
        return self._link.run(self._offsets_at(timestamps))

    def held(self, ranges: Iterable[OffsetRange], lose: Callable[[str], None]) -> list[StoredRange]:
        """The available parts of the ranges; `lose` is called for the missing parts."""
        wanted = list(ranges)
        if any(not self._has(each) for each in wanted):
            self._look()
        there = [part for each in wanted if (part := self._clipped(each, lose)) is not None]
        return self._link.run(self._with_segments(there))

    def _has(self, wanted: OffsetRange) -> bool:
        known = self._partitions.get(wanted.tp)
        return known is not None and wanted.until <= known.manifest.tiered_end

    def _clipped(self, wanted: OffsetRange, lose: Callable[[str], None]) -> OffsetRange | None:
        tp, first, until = wanted
        known = self._partitions.get(tp)
        if known is None:
            lose(f"{tp} is no longer in the object store")
            return None
        start, end = known.manifest.log_start, known.manifest.tiered_end
        if first < start:
            lose(
                f"offset {first} of {tp} is no longer in the object store: its first record there is {start}"
            )
        if until > end:
            lose(f"{tp} ends at {end} in the object store, and {until} was to be its end")
        clipped = OffsetRange(tp, max(first, start), min(until, end))
        return clipped if clipped.size > 0 else None

    # -- asking the store -----------------------------------------------------------------------------------

    def _look(self) -> None:
        topics = self._link.run(self._read())
        self._partitions = {
            TopicPartition(name, partition.folder.partition): partition
            for name, partitions in topics.items()
            for partition in partitions
        }
        self._looked = time.monotonic()

    async def _read(self) -> dict[str, list[BucketPartition]]:
        store, reader = self._link.store, self._link.reader
        cluster_id = await find_cluster(store, self._remote.cluster_id)
        if self._remote.snapshot is not None:
            held = await snapshot_topics(reader, cluster_id, self._remote.snapshot)
            return by_name({topic: held[topic] for topic in self._chosen(list(held))})
        topics = self._chosen(await find_topics(store, cluster_id))
        return by_name({topic: await read_partitions(store, reader, topic) for topic in topics})

    def _chosen(self, topics: list[TopicFolder]) -> list[TopicFolder]:
        wanted = self._subscription
        if wanted.pattern is not None:
            names = matching([topic.topic for topic in topics], INTERNAL_TOPICS, wanted.pattern)
            return [topic for topic in topics if topic.topic in names]
        return select_topics(topics, wanted.topics or sorted({tp.topic for tp in wanted.assigned}))

    async def _offsets_at(self, timestamps: Offsets) -> Offsets:
        found = await asyncio.gather(
            *(self._offset_at(tp, timestamp) for tp, timestamp in timestamps.items())
        )
        return dict(zip(timestamps, found, strict=True))

    async def _offset_at(self, tp: TopicPartition, timestamp: int) -> int:
        partition = self._partitions.get(tp)
        if partition is None:
            raise BucketError(f"There is no {tp} here.")
        if timestamp in (EARLIEST, LATEST):
            manifest = partition.manifest
            return manifest.log_start if timestamp == EARLIEST else manifest.tiered_end
        offset = await offset_for_timestamp(self._link.reader, partition, timestamp)
        return -1 if offset is None else offset

    async def _with_segments(self, ranges: list[OffsetRange]) -> list[StoredRange]:
        partitions = [self._partitions[each.tp] for each in ranges]
        reader = self._link.reader
        found = await asyncio.gather(
            *(
                entries_between(reader, partition, each.first, each.until)
                for partition, each in zip(partitions, ranges, strict=True)
            )
        )
        return list(map(StoredRange, ranges, partitions, found))


_known: dict[tuple[int, RemoteSettings, TopicSelection], RemoteTopics] = {}


def remote_topics(remote: RemoteSettings, subscription: TopicSelection) -> RemoteTopics:
    """The instance of this process, created once: a stream must keep its state between batches."""
    key = os.getpid(), remote, subscription
    if key not in _known:
        _known[key] = RemoteTopics(store_link(remote), remote, subscription)
    return _known[key]
