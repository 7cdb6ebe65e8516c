"""Topics in an object store, read without a broker: the data that tiered storage has uploaded, up to the tiered end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from barnabas.client import FetchedRange
from barnabas.client.offsets import OffsetRange
from barnabas.common.clock import SystemClock
from barnabas.common.types import TopicPartition
from barnabas.config.setting import ConfigError
from barnabas.tables.errors import TableError
from barnabas.tables.sources import Bounds, OpenSource, Snapshot, TableSource, TimeBound
from barnabas.tiering.reading import (
    BucketPartition,
    SegmentFetcher,
    StoreReader,
    by_name,
    find_cluster,
    find_topics,
    read_partitions,
    select_topics,
)
from barnabas.tiering.reading.segment_ranges import (
    SegmentRange,
    entries_between,
    offset_for_timestamp,
    segment_ranges,
)
from barnabas.tiering.stores import URL, BrowsableStore, open_store


def open_bucket(url: str, options: Mapping[str, str], cluster_id: str | None = None) -> OpenSource:
    async def open_source() -> TableSource:
        try:
            return BucketTableSource(open_store(url, options), cluster_id)
        except ConfigError as error:
            raise TableError(
                str(error).replace(URL, "remote").replace("rsm.config.", "remote options ")
            ) from None

    return open_source


class BucketTableSource:
    def __init__(self, store: BrowsableStore, cluster_id: str | None) -> None:
        self._store = store
        self._reader = StoreReader(store, SystemClock())
        self._cluster_id = cluster_id
        self._partitions: dict[TopicPartition, BucketPartition] = {}

    async def topics(self) -> list[str]:
        cluster = await find_cluster(self._store, self._cluster_id)
        return sorted({topic.topic for topic in await find_topics(self._store, cluster)})

    async def snapshot(self, topic: str) -> Snapshot:
        cluster = await find_cluster(self._store, self._cluster_id)
        folders = select_topics(await find_topics(self._store, cluster), [topic])
        topics = by_name(
            {folder: await read_partitions(self._store, self._reader, folder) for folder in folders}
        )
        for name, partitions in topics.items():
            for partition in partitions:
                self._partitions[TopicPartition(name, partition.folder.partition)] = partition
        return {
            tp: Bounds(
                partition.manifest.log_start, max(partition.manifest.log_start, partition.manifest.tiered_end)
            )
            for tp, partition in sorted(self._partitions.items())
        }

    async def since(self, snapshot: Snapshot, timestamp: int) -> dict[TopicPartition, int]:
        found = await asyncio.gather(
            *(offset_for_timestamp(self._reader, self._partitions[tp], timestamp) for tp in snapshot)
        )
        return {
            tp: snapshot[tp].until if offset is None else offset
            for tp, offset in zip(snapshot, found, strict=True)
        }

    async def time_bounds(self, snapshot: Snapshot, limit: int) -> dict[TopicPartition, list[TimeBound]]:
        """Bounds at segments: manifests record the largest timestamp of each segment."""
        return {tp: await self._bounds(tp, bounds) for tp, bounds in snapshot.items()}

    async def _bounds(self, tp: TopicPartition, bounds: Bounds) -> list[TimeBound]:
        found, newest = [], -1
        for entry in await entries_between(self._reader, self._partitions[tp], *bounds):
            newest = max(newest, entry.largest_timestamp)
            found.append(TimeBound(entry.end, newest + 1))
        return found

    def read(self, ranges: Iterable[OffsetRange]) -> BucketSource:
        return BucketSource(
            self._reader, [(offset_range, self._partitions[offset_range.tp]) for offset_range in ranges]
        )

    async def close(self) -> None:
        await self._store.close()


class BucketSource:
    """A BatchSource that finds the segments of its ranges on the first read."""

    def __init__(self, reader: StoreReader, ranges: list[tuple[OffsetRange, BucketPartition]]) -> None:
        self._reader = reader
        self._ranges = ranges
        self._fetcher: SegmentFetcher | None = None

    @property
    def is_done(self) -> bool:
        return not self._ranges if self._fetcher is None else self._fetcher.is_done

    async def next(self) -> list[FetchedRange]:
        if self._fetcher is None:
            parts = [
                part
                for offset_range, partition in self._ranges
                for part in await self._parts(offset_range, partition)
            ]
            self._fetcher = SegmentFetcher(self._reader, parts, committed=True, on_loss=_lose)
        return await self._fetcher.next()

    async def _parts(self, offset_range: OffsetRange, partition: BucketPartition) -> list[SegmentRange]:
        entries = await entries_between(self._reader, partition, offset_range.first, offset_range.until)
        return segment_ranges(partition, entries, offset_range)

    async def close(self) -> None:
        if self._fetcher is not None:
            await self._fetcher.close()


def _lose(what: str) -> None:
    raise TableError(f"{what}. It was deleted during the read; retry")
