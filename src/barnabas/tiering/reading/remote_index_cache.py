"""LRU cache of footers and indexes of remote segments.

One GET reads everything after the records of an object unless it is large. Kafka keeps indexes in files; here they are
arrays, about 5 MB for a segment of 1 GiB.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from barnabas.common.files import Bytes, ReadableFile
from barnabas.log.segments import (
    AbortedIndex,
    BadBatch,
    IndexFileError,
    OffsetIndex,
    TimeIndex,
    TransactionIndexError,
    walk_headers,
)
from barnabas.records.batch import BatchHeader
from barnabas.tiering.objects.manifest import SegmentEntry
from barnabas.tiering.objects.segment_object import (
    ABORTED,
    OFFSET_INDEX,
    TIME_INDEX,
    BadObjectError,
    Footer,
    check_section,
    footer_of,
)
from barnabas.tiering.reading.chunk_cache import Threads
from barnabas.tiering.reading.chunk_memory import RemoteChunk
from barnabas.tiering.stores.store import ObjectReader

LIMIT = 64 << 20
"""Total bytes of the cache."""
READ_AT_ONCE = 8 << 20
"""Objects with a larger end (very many producers) are read in two steps."""
_OVERHEAD, _PER_CHUNK = 4096, 200  # approximate size of the Python objects


class SegmentIndexes:
    """Footer and indexes of one remote segment, which locate its batches. It ends at the end of its entry."""

    def __init__(self, key: str, entry: SegmentEntry, footer: Footer, sections: dict[str, bytes]) -> None:
        for name, data in sections.items():
            check_section(key, footer, name, data)
        self.key = key
        self.entry = entry
        self.footer = footer
        try:
            self.offset_index = OffsetIndex.from_bytes(sections[OFFSET_INDEX], footer.size)
            self.time_index = TimeIndex.from_bytes(sections[TIME_INDEX])
            self.aborted = AbortedIndex.from_bytes(sections[ABORTED])
        except (IndexFileError, TransactionIndexError) as error:
            raise BadObjectError(f"{key}: an index is damaged: {error}") from error
        self.weight = sum(map(len, sections.values())) + _PER_CHUNK * len(footer.chunks) + _OVERHEAD

    def chunk(self, number: int) -> RemoteChunk:
        start, end = self.footer.chunk_range(number)
        return RemoteChunk(self.key, start, end - start, self.footer.chunks[number].crc)

    def offset_behind(self, number: int) -> int:
        """First offset of the next chunk; after the last one, the end of the segment."""
        chunks = self.footer.chunks
        following = chunks[number + 1].base_offset if number + 1 < len(chunks) else self.entry.end
        return min(following, self.entry.end)

    def locate(self, number: int, file: ReadableFile, offset: int) -> tuple[int, BatchHeader] | None:
        """Return position and header of the first batch in the chunk's file that ends at `offset` or later."""
        start, end = self.footer.chunk_range(number)
        indexed = self.offset_index.lookup(max(offset - self.entry.base, 0))
        if indexed >= end:
            return None
        try:
            for position, header in walk_headers(file, max(indexed - start, 0), end - start):
                if header.last_offset >= offset:
                    return position, header
        except BadBatch as error:
            raise BadObjectError(f"{self.key}: chunk at {start}: {error}") from error
        return None

    def end_position(self, number: int, file: ReadableFile) -> int:
        """End position of the readable part of a chunk's file."""
        start, end = self.footer.chunk_range(number)
        if self.entry.end >= self.footer.end:
            return end - start
        found = self.locate(number, file, self.entry.end)  # truncated by an unclean election
        return end - start if found is None else found[0]


class RemoteIndexCache:
    """Shared by all remote logs of a broker. Concurrent callers share one read per segment."""

    def __init__(self, store: ObjectReader, threads: Threads, limit: int = LIMIT) -> None:
        self._store = store
        self._threads = threads
        self._limit = limit
        self._segments: OrderedDict[tuple[str, int], SegmentIndexes] = OrderedDict()  # by last use
        self._loading: dict[tuple[str, int], asyncio.Task[SegmentIndexes]] = {}
        self.weight = 0

    def find(self, key: str, entry: SegmentEntry) -> SegmentIndexes | None:
        found = self._segments.get((key, entry.end))
        if found is not None:
            self._segments.move_to_end((key, entry.end))
        return found

    async def load(self, key: str, entry: SegmentEntry) -> SegmentIndexes:
        """Return the indexes; StoreError if they cannot be read."""
        found = self.find(key, entry)
        if found is not None:
            return found
        name = key, entry.end
        task = self._loading.get(name)
        if task is None:
            task = self._loading[name] = asyncio.create_task(self._load(key, entry))
            task.add_done_callback(lambda done: self._loaded(name, done))
        return await asyncio.shield(task)

    async def close(self) -> None:
        tasks = list(self._loading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _load(self, key: str, entry: SegmentEntry) -> SegmentIndexes:
        if entry.total - entry.size <= READ_AT_ONCE:
            end = await self._store.get_range(key, entry.size, entry.total)
            return await self._threads.call(lambda: _from_end(key, entry, end))
        data = bytes(await self._store.get_range(key, entry.footer, entry.total))
        footer = await self._threads.call(lambda: footer_of(data, key, entry))
        sections = {}
        for name in (OFFSET_INDEX, TIME_INDEX, ABORTED):
            extent = footer.sections[name]
            until = extent.position + extent.length
            section = await self._store.get_range(key, extent.position, until) if extent.length else b""
            sections[name] = bytes(section)
        return await self._threads.call(lambda: SegmentIndexes(key, entry, footer, sections))

    def _loaded(self, name: tuple[str, int], task: asyncio.Task[SegmentIndexes]) -> None:
        del self._loading[name]
        if task.cancelled() or task.exception() is not None:
            return
        segment = self._segments[name] = task.result()
        self.weight += segment.weight
        while self.weight > self._limit and len(self._segments) > 1:
            _, oldest = self._segments.popitem(last=False)
            self.weight -= oldest.weight


def _from_end(key: str, entry: SegmentEntry, end: Bytes) -> SegmentIndexes:
    """Decode everything after the records. Runs in a thread."""
    footer = footer_of(bytes(end[entry.footer - entry.size :]), key, entry)
    sections = {}
    for name in (OFFSET_INDEX, TIME_INDEX, ABORTED):
        section = footer.sections[name]
        start = section.position - entry.size
        sections[name] = bytes(end[start : start + section.length])
    return SegmentIndexes(key, entry, footer, sections)
