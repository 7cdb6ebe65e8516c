"""Remote part of one partition, for reading: offset to a slice of a cached chunk.

log = RemoteLog(folder, parts)
batch = log.find(offset)             # None if it is not in memory
batch = await log.load(offset)       # downloads its chunk; this stays cached while `batch` is referenced
log.slice(batch, ...)                # a slice of the chunk's file
await log.read(offset, ...)          # load and slice
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from barnabas.common.clock import Clock
from barnabas.common.files import EMPTY, FileSlice, MemoryFile, ReadableFile, Slice
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.log import MAX_LISTED, SHORT_SLICE, FoundRecord, aborted_in, first_in_file
from barnabas.tiering.objects.layout import PartitionFolder
from barnabas.tiering.objects.manifest import Manifest, ManifestPage, SegmentEntry, entry_key, find_entry
from barnabas.tiering.objects.manifest_file import read_manifest, read_page
from barnabas.tiering.objects.segment_object import BadObjectError
from barnabas.tiering.reading.bootstrap import Bootstrap, bootstrap
from barnabas.tiering.reading.chunk_cache import ChunkCache, Threads
from barnabas.tiering.reading.read_ahead import ReadAhead
from barnabas.tiering.reading.remote_index_cache import RemoteIndexCache, SegmentIndexes
from barnabas.tiering.reading.store_reader import StoreReader
from barnabas.tiering.stores.store import MissingObjectError, ObjectReader, StoreError

# -- Manifest, for readers: finds the segment of an offset ---------------------------------------------
# A leader's writer provides the manifest (`follow`); others read it from the store. All read it again when an offset
# is not listed, or an object is missing or damaged. It is valid for one leader epoch.

PAGES_KEPT = 4
"""Cached pages of a thousand entries, about 400 KB each."""


class ManifestReader:
    def __init__(self, folder: PartitionFolder, store: ObjectReader) -> None:
        self._folder = folder
        self._store = store
        self._reading: asyncio.Task[Manifest] | None = None
        self._tasks: set[asyncio.Task[Manifest]] = set()
        self._pages: dict[str, tuple[SegmentEntry, ...]] = {}
        self._known: Manifest | None = None
        self._of_writer: Callable[[], Manifest | None] | None = None

    @property
    def current(self) -> Manifest | None:
        """Latest known manifest."""
        return (self._of_writer() if self._of_writer is not None else None) or self._known

    def use(self, manifest: Manifest | None) -> None:
        """Set the latest manifest; None after a leader change, until it is read again. A read in progress may return an
        older one and is ignored."""
        self._known = manifest
        if manifest is None:
            self._reading = self._of_writer = None

    def follow(self, of_writer: Callable[[], Manifest | None]) -> None:
        """Use the manifest of the writer that this broker runs as leader, once it has one; until `use(None)`."""
        self._of_writer = of_writer

    async def refresh(self) -> Manifest:
        """Read the manifest; concurrent callers share one request."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
            self._tasks.add(self._reading)
            self._reading.add_done_callback(self._has_read)
        return await asyncio.shield(self._reading)

    async def _read(self) -> Manifest:
        seen = await read_manifest(self._store, self._folder)
        if seen is None:
            raise MissingObjectError(f"{self._folder.manifest} does not exist")
        return seen.manifest

    def _has_read(self, task: asyncio.Task[Manifest]) -> None:
        self._tasks.discard(task)
        is_wanted = task is self._reading
        if is_wanted:
            self._reading = None
        if not task.cancelled() and task.exception() is None and is_wanted:
            read, known = task.result(), self.current
            if known is None or known.fence <= read.fence:
                self._known = read

    # -- entries ------------------------------------------------------------------------------------

    async def entry_at(self, offset: int) -> SegmentEntry:
        """Return the entry of the offset, if necessary from a newer manifest; StoreError if no segment contains it."""
        entry = await self.listed(offset)
        if entry is None:
            entry = await self._listed_in(await self.refresh(), offset)
        if entry is None:
            raise StoreError(f"no remote segment holds offset {offset}: see {self._folder.manifest}")
        return entry

    async def listed(self, offset: int) -> SegmentEntry | None:
        """Return the entry from the known manifest; may read a page from the store."""
        return await self._listed_in(self.current, offset) if self.current is not None else None

    async def _listed_in(self, manifest: Manifest, offset: int) -> SegmentEntry | None:
        entry = manifest.entry_at(offset)
        page = manifest.page_at(offset) if entry is None else None
        return entry if page is None else find_entry(await self.entries_of(page), offset)

    def in_memory(self, offset: int) -> SegmentEntry | None:
        """Return the entry if it is in memory."""
        manifest = self.current
        if manifest is None:
            return None
        entry = manifest.entry_at(offset)
        page = manifest.page_at(offset) if entry is None else None
        if page is None:
            return entry
        return find_entry(self._pages.get(entry_key(self._folder, page), ()), offset)

    async def entries_of(self, part: ManifestPage | SegmentEntry) -> tuple[SegmentEntry, ...]:
        """Entries of a page; a segment's entry is returned as is."""
        if isinstance(part, SegmentEntry):
            return (part,)
        key = entry_key(self._folder, part)
        entries = self._pages.get(key)
        if entries is None:
            entries = await read_page(self._store, self._folder, part)
            if len(self._pages) >= PAGES_KEPT:
                del self._pages[next(iter(self._pages))]
            self._pages[key] = entries
        return entries

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()


logger = rate_limited_logger(__name__)


class RemoteRead(NamedTuple):
    data: Slice
    aborted: list[tuple[int, int]]
    """(producer id, first offset) of aborted transactions in it, by first offset."""


class ReadingParts(NamedTuple):
    """Parts shared by all remote logs of a broker."""

    store: StoreReader
    indexes: RemoteIndexCache
    chunks: ChunkCache
    threads: Threads
    clock: Clock


class RemoteBatch(NamedTuple):
    """The batch of a remote segment that contains `offset`, in a cached chunk, which stays while it is referenced."""

    offset: int
    segment: SegmentIndexes
    number: int
    file: ReadableFile
    position: int
    size: int


class RemoteLog:
    """Bound to the event loop."""

    def __init__(self, folder: PartitionFolder, parts: ReadingParts) -> None:
        self.folder = folder
        self._parts = parts
        self.manifest = ManifestReader(folder, parts.store)
        self._ahead = ReadAhead(self._listed_segment, parts.chunks)

    # -- reading ------------------------------------------------------------------------------------

    async def read(
        self, offset: int, max_bytes: int, *, committed: bool = False, at_least_one: bool = True
    ) -> RemoteRead:
        """Read from the batch that contains `offset`, within one chunk. StoreError if it cannot be read."""
        batch = await self.load(offset)
        return self.slice(batch, max_bytes, committed=committed, at_least_one=at_least_one)

    async def load(self, offset: int) -> RemoteBatch:
        """Wait for the batch that contains `offset`. StoreError if it cannot be read."""
        try:
            try:
                return await self._load(offset)
            except (BadObjectError, MissingObjectError) as error:
                logger.warning(
                    "reloading the manifest and retrying the read of a remote segment: %s", error.message
                )
                await self.manifest.refresh()
                return await self._load(offset)
        except StoreError as error:
            prefix = self.folder.prefix
            logger.error("cannot read offset %d of %s: %s", offset, prefix, error.message)
            raise

    async def _load(self, offset: int) -> RemoteBatch:
        target = offset
        while True:
            segment = await self.segment_at(target)
            number = segment.footer.chunk_at(target)
            file = await self._parts.chunks.load(segment.chunk(number))
            if isinstance(file, MemoryFile):
                found = segment.locate(number, file, target)
            else:  # chunks cached long ago may require disk reads
                found = await self._parts.threads.call(lambda: segment.locate(number, file, target))  # noqa: B023
            self._ahead.note_read(segment, number)
            if found is not None:
                return RemoteBatch(offset, segment, number, file, found[0], found[1].size)
            target = segment.offset_behind(number)  # no batch in this chunk: offsets have gaps

    async def segment_at(self, offset: int) -> SegmentIndexes:
        entry = await self.manifest.entry_at(offset)
        return await self._parts.indexes.load(entry_key(self.folder, entry), entry)

    async def _listed_segment(self, offset: int) -> SegmentIndexes | None:
        """Return the segment without reading a newer manifest."""
        entry = await self.manifest.listed(offset)
        return await self._parts.indexes.load(entry_key(self.folder, entry), entry) if entry else None

    def find(self, offset: int) -> RemoteBatch | None:
        """Return the batch that contains `offset` if it is in memory."""
        try:
            found = self._find(offset)
        except BadObjectError:  # raised again by `load`
            return None
        self._parts.chunks.hits += found is not None
        return found

    def _find(self, offset: int) -> RemoteBatch | None:
        target = offset
        while (entry := self.manifest.in_memory(target)) is not None:
            segment = self._parts.indexes.find(entry_key(self.folder, entry), entry)
            if segment is None:
                return None
            number = segment.footer.chunk_at(target)
            file = self._parts.chunks.find_in_memory(segment.chunk(number))
            if file is None:
                return None
            found = segment.locate(number, file, target)
            if found is not None:
                return RemoteBatch(offset, segment, number, file, found[0], found[1].size)
            target = segment.offset_behind(number)
        return None

    def slice(
        self, batch: RemoteBatch, max_bytes: int, *, committed: bool = False, at_least_one: bool = True
    ) -> RemoteRead:
        """Read from a batch on, within its chunk."""
        self._ahead.note_read(batch.segment, batch.number)
        data = self._slice(batch, max_bytes, at_least_one)
        if not committed or not isinstance(data, FileSlice):
            return RemoteRead(data, [])
        return self._without_aborted(batch, data, min(max_bytes, SHORT_SLICE), at_least_one)

    def _without_aborted(
        self, found: RemoteBatch, data: FileSlice, short: int, at_least_one: bool
    ) -> RemoteRead:
        """Add the aborted transactions for read_committed; shorten the slice if there are many, as for local reads."""
        between, offset = found.segment.aborted.between, found.offset
        aborted = list(between(offset, found.segment.offset_behind(found.number)))
        if len(aborted) > MAX_LISTED:
            shorter = self._slice(found, short, at_least_one)
            aborted = aborted_in(between, offset, shorter) if isinstance(shorter, FileSlice) else []
            return RemoteRead(shorter, sorted(aborted, key=_first_offset))
        return RemoteRead(data, sorted(aborted, key=_first_offset))

    def _slice(self, found: RemoteBatch, max_bytes: int, at_least_one: bool) -> Slice:
        """Cut as `LocalLog.read` does: the first batch is complete if `at_least_one`."""
        length = found.segment.end_position(found.number, found.file) - found.position
        if length <= max_bytes:
            self._parts.chunks.note_end(found.segment.chunk(found.number))
        else:
            size = found.size
            length = max(max_bytes, size) if at_least_one else (max_bytes if size <= max_bytes else 0)
        return FileSlice(found.file, found.position, length) if length > 0 else EMPTY

    # -- by time ------------------------------------------------------------------------------------

    async def offset_for_timestamp(self, timestamp: int, log_start: int, end: int) -> FoundRecord | None:
        """Return the first record in [log start, end) with at least this timestamp."""
        manifest = self.manifest.current or await self.manifest.refresh()
        if manifest.tiered_end < end:
            manifest = await self.manifest.refresh()
        parts: tuple[ManifestPage | SegmentEntry, ...] = (*manifest.pages, *manifest.entries)
        for part in parts:
            if part.largest_timestamp < timestamp or part.end <= log_start or part.base >= end:
                continue
            for entry in await self.manifest.entries_of(part):
                if entry.largest_timestamp >= timestamp and entry.end > log_start:
                    found = await self._first_in_segment(entry, timestamp, log_start)
                    if found is not None:
                        return found if found.offset < end else None
        return None

    async def _first_in_segment(
        self, entry: SegmentEntry, timestamp: int, log_start: int
    ) -> FoundRecord | None:
        segment = await self._parts.indexes.load(entry_key(self.folder, entry), entry)
        start = max(entry.base + segment.time_index.lookup(timestamp), log_start)
        first = segment.footer.chunk_at(start)
        for number in range(first, len(segment.footer.chunks)):
            file = await self._parts.chunks.load(segment.chunk(number))
            found = await self._parts.threads.call(
                lambda: _first_in_chunk(segment, number, file, start, timestamp, log_start)  # noqa: B023
            )
            if found is not None:
                return found if found.offset < entry.end else None
        return None

    # -- restoring a log from tiered storage -------------------------------------------------------------

    async def all_batches(self) -> AsyncIterator[bytes]:
        """Yield all batches of the latest manifest, chunk by chunk. StoreError if they cannot be read."""
        manifest = await self.manifest.refresh()
        for part in manifest.parts:
            for entry in await self.manifest.entries_of(part):
                if entry.end > manifest.log_start:
                    segment = await self._parts.indexes.load(entry_key(self.folder, entry), entry)
                    for number in range(len(segment.footer.chunks)):
                        file = await self._parts.chunks.load(segment.chunk(number))
                        yield await self._parts.threads.call(
                            lambda: file.read(segment.end_position(number, file), 0)  # noqa: B023
                        )

    async def bootstrap(self, offset: int | None = None) -> Bootstrap:
        """Return the state for a log restored at the tiered end of the latest manifest; or, with `offset`, at the end
        of the segment that contains the record before it."""
        manifest = await self.manifest.refresh()
        return await bootstrap(self, self._parts, manifest, offset)

    async def close(self) -> None:
        self.manifest.close()
        await self._ahead.close()


def _first_offset(aborted: tuple[int, int]) -> int:
    return aborted[1]


def _first_in_chunk(
    segment: SegmentIndexes, number: int, file: ReadableFile, start: int, timestamp: int, log_start: int
) -> FoundRecord | None:
    found = segment.locate(number, file, start)
    if found is None:
        return None
    return first_in_file(file, found[0], segment.end_position(number, file), timestamp, log_start)
