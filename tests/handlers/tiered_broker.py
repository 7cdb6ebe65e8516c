"""A broker whose partitions have remote segments in a store in memory."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

from barnabas.broker.broker import Broker
from barnabas.common.files import FileSlice, LocalFileSystem
from barnabas.common.threads import ThreadBackground
from barnabas.log.log import Log
from barnabas.log.recovery.snapshots import encode_snapshot
from barnabas.log.segments.aborted_index import encode_aborted
from barnabas.log.segments.segment import Segment
from barnabas.log.tiering.copying import SealedSegment
from barnabas.replication.tiered_reads import RemoteLimits, TieredReads
from barnabas.testing import EmbeddedBroker
from barnabas.testing.objects import MemoryObjectStore
from barnabas.tiering.objects.layout import PartitionFolder, SegmentName
from barnabas.tiering.objects.manifest import ManifestWriter, encode
from barnabas.tiering.objects.manifest_changes import add, new_manifest
from barnabas.tiering.objects.segment_build import SegmentBuild, at_once
from barnabas.tiering.reading.chunk_cache import ChunkCache
from barnabas.tiering.reading.chunk_files import ChunkFiles
from barnabas.tiering.reading.remote_index_cache import RemoteIndexCache
from barnabas.tiering.reading.remote_log import ReadingParts, RemoteLog
from barnabas.tiering.reading.store_reader import StoreReader

WRITER = ManifestWriter(0, 0, "a test")


class HandMadeTiers:
    """Adds tiered storage to a running broker, and moves sealed segments to the store."""

    def __init__(self, broker: EmbeddedBroker, folder: Path, *, cache_bytes: int = 64 << 20) -> None:
        self._embedded = broker
        self._logs: dict[Log, RemoteLog] = {}
        self.limits = RemoteLimits(60.0, 60.0)
        self.run(self._start(broker.broker, folder, cache_bytes))

    def run(self, coroutine: Any) -> Any:
        return self._embedded._in_thread().run(coroutine, 60)

    async def _start(self, broker: Broker, folder: Path, cache_bytes: int) -> None:
        self.store = MemoryObjectStore()
        self._threads = ThreadBackground(asyncio.get_running_loop(), 2, "remote")
        reader = StoreReader(self.store, broker.clock)
        files = ChunkFiles(LocalFileSystem(), f"{folder}/cache")
        files.empty()
        self.cache = ChunkCache(reader.get_range, files, self._threads, limit=cache_bytes, max_downloads=10)
        indexes = RemoteIndexCache(reader, self._threads)
        self._parts = ReadingParts(reader, indexes, self.cache, self._threads, broker.clock)
        self.reads = TieredReads(broker.page_cache.background, broker.timers, lambda: self.limits)
        broker.page_cache = self.reads

    def move(self, topic: str, index: int = 0) -> int:
        """Roll the log, and move everything before to the store. The local start."""
        start: int = self.run(self._move(topic, index))
        return start

    async def _move(self, topic: str, index: int) -> int:
        broker = self._embedded.broker
        partition = broker.replicas.by_name[topic][index]
        log = partition.log
        log.roll(broker.clock.now_ms())
        folder = PartitionFolder(broker.cluster_id, topic, partition.topic_id, index)
        manifest = new_manifest(folder, WRITER, log.offsets.start)
        segments = list(log.segments)
        for segment, following in pairwise(segments):
            sealed = _sealed(log, segment, following.base_offset)
            name = str(SegmentName(sealed.base, 0, f"{sealed.base:08x}"))
            build = SegmentBuild(folder, sealed, 0, name)
            data = b"".join([piece async for piece in build.pieces(at_once)])
            assert build.entry is not None
            self.store.set_contents(folder.key(name), data)
            manifest = add(manifest, build.entry)
        self.store.set_contents(folder.manifest, encode(manifest))
        partition.remote = self._logs[log] = RemoteLog(folder, self._parts)
        log.offsets.advance_tiered_end(manifest.tiered_end)
        log.offsets.advance_local_start(manifest.tiered_end)
        return manifest.tiered_end

    def close(self) -> None:
        self.run(self._close())

    async def _close(self) -> None:
        await self.reads.close()
        for remote in self._logs.values():
            await remote.close()
        await self._parts.indexes.close()
        await self.cache.close()
        self._threads.close()


def _sealed(log: Log, segment: Segment, end: int) -> SealedSegment:
    aborted = [
        each
        for other in log.segments
        for each in other.aborted
        if each.first_offset < end and each.last_offset >= segment.base_offset
    ]
    return SealedSegment(
        base=segment.base_offset,
        end=end,
        data=FileSlice(segment.file, 0, segment.size),
        largest_timestamp=segment.largest_timestamp[0],
        offset_index=segment.offset_index.to_bytes(),
        time_index=segment.time_index.to_bytes(),
        aborted=encode_aborted(aborted),
        producers=encode_snapshot([]),
        epochs=tuple(log.epochs.entries),
    )
