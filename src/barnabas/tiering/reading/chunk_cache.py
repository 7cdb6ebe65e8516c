"""Cache of segment chunks in memory and on disk; one download serves all waiters.

    load(chunk)    wait for the chunk. Cancelling a waiter does not cancel the download
    ahead(chunk)   prefetch with low priority
    find(chunk)    its file, if cached
    note_end(chunk)   a reader has read it to the end

A chunk is kept in memory if there is room, and sent from there; otherwise in a file, which is sent by `sendfile`.
Chunks of logs that are read more than once go to files (`chunk_memory.Reuse`).

Limits, reserved before a download begins. Memory: ten chunks; those read to their end are evicted first. Disk: `limit`
bytes; the least recently used chunks are evicted, except those being read. If neither has room, downloads wait.
Downloads: `max_downloads` at once; each that goes to a file holds its bytes in memory until they are written. Rate:
downloads wait while the quota is exhausted. Unused prefetched chunks take at most half of the cache, so that readers do
not evict each other's prefetched chunks.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol, TypeVar

from fastcrc.crc32 import iscsi as crc32c

from barnabas.common.files import Bytes, MemoryFile, ReadableFile
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.metrics import Histogram
from barnabas.tiering.objects.segment_object import CHUNK_BYTES, BadObjectError
from barnabas.tiering.reading.chunk_files import ChunkFile, ChunkFiles
from barnabas.tiering.reading.chunk_memory import ChunkMemory, RemoteChunk, Reuse
from barnabas.tiering.stores.store import StoreError
from barnabas.tiering.stores.traffic import ReadQuota

CHUNKS_IN_MEMORY = 10
CHECKED_AT_ONCE = 512 << 10
"""Bytes per checksum step: computing a checksum holds the GIL."""

logger = rate_limited_logger(__name__)
T = TypeVar("T")

GetRange = Callable[[str, int, int], Awaitable[Bytes]]


class Threads(Protocol):
    async def call(self, work: Callable[[], T]) -> T:
        """Run blocking disk I/O in a thread."""
        ...


class Room(NamedTuple):
    """Space reserved for a download."""

    on_disk: bool
    removed: list[str]
    """Files to remove for it."""


class ChunkDownload:
    """Download of one chunk."""

    __slots__ = ("chunk", "done", "task")

    def __init__(self, chunk: RemoteChunk) -> None:
        self.chunk = chunk
        self.done: asyncio.Future[ReadableFile] = asyncio.get_running_loop().create_future()
        self.done.add_done_callback(_retrieve_exception)
        self.task: asyncio.Task[None] | None = None


def _retrieve_exception(done: asyncio.Future[ReadableFile]) -> None:
    """Mark the error as retrieved: without a waiter asyncio would log it."""
    if not done.cancelled():
        done.exception()


class ChunkCache:
    """Chunk cache of one event loop. `get_range` retries internally."""

    def __init__(
        self,
        get_range: GetRange,
        files: ChunkFiles,
        threads: Threads,
        *,
        limit: int,
        max_downloads: int,
        memory_limit: int = CHUNKS_IN_MEMORY * CHUNK_BYTES,
        quota: ReadQuota | None = None,
        reuse: Reuse | None = None,
    ) -> None:
        self._get_range = get_range
        self._files = files
        self._threads = threads
        self.limit = limit
        self.max_downloads = max_downloads
        self.memory = ChunkMemory(memory_limit, self._dropped)
        self._reuse = reuse or Reuse(lambda: self.limit)
        self.quota = quota or ReadQuota(time.monotonic)
        self._later: asyncio.TimerHandle | None = None
        self._here: OrderedDict[RemoteChunk, ChunkFile] = OrderedDict()  # by last use
        self._downloads: dict[RemoteChunk, ChunkDownload] = {}
        self._wanted: dict[RemoteChunk, ChunkDownload] = {}  # queued, with waiters
        self._ahead: dict[RemoteChunk, ChunkDownload] = {}  # queued, without waiters
        self._unread: set[RemoteChunk] = set()  # prefetched and not used yet
        self._unread_bytes = 0
        self.used = 0
        """Bytes on disk, including reserved space."""
        self.running = 0
        self.times = Histogram()
        """Duration of downloads in seconds."""
        self.hits = self.misses = self.evicted = self.downloaded_bytes = 0

    # -- interface for readers ----------------------------------------------------------------------

    def find(self, chunk: RemoteChunk) -> ReadableFile | None:
        """Return the chunk's file, which stays valid while referenced; None if it is not cached."""
        in_memory = self.find_in_memory(chunk)
        if in_memory is not None:
            return in_memory
        found = self._here.get(chunk)
        if found is None:
            return None
        if found.is_read:
            self._reuse.note_again(chunk)
        file = self._files.open(found)
        if file is None:
            self._forget(chunk)
            return None
        self._here.move_to_end(chunk)
        self._note_read(chunk)
        return file

    def find_in_memory(self, chunk: RemoteChunk) -> MemoryFile | None:
        """Return the chunk only if it is in memory."""
        file = self.memory.find(chunk)
        if file is not None:
            self._note_read(chunk)
            if self.memory.is_read(chunk):
                self._reuse.note_again(chunk)
        return file

    def note_end(self, chunk: RemoteChunk) -> None:
        """Record that a reader has read the chunk to the end."""
        self.memory.note_end(chunk)
        if (found := self._here.get(chunk)) is not None:
            found.is_read = True

    async def load(self, chunk: RemoteChunk) -> ReadableFile:
        """Wait for the chunk's file; StoreError if the download fails."""
        file = self.find(chunk)
        if file is not None:
            self.hits += 1
            return file
        self.misses += 1
        download = self._downloads.get(chunk)
        if download is None:
            self._reuse.note_missed(chunk)
            download = self._downloads[chunk] = self._wanted[chunk] = ChunkDownload(chunk)
        elif self._ahead.pop(chunk, None) is not None:
            self._wanted[chunk] = download
        self._note_read(chunk)
        self._start_downloads()
        return await asyncio.shield(download.done)

    def ahead(self, chunk: RemoteChunk) -> bool:
        """Prefetch a chunk. False if the prefetch limit is reached."""
        if chunk in self.memory or chunk in self._here or chunk in self._downloads:
            return True
        if self._unread_bytes + chunk.size > self.limit // 2:
            return False
        self._reuse.note_missed(chunk)
        self._unread.add(chunk)
        self._unread_bytes += chunk.size
        self._downloads[chunk] = self._ahead[chunk] = ChunkDownload(chunk)
        self._start_downloads()
        return True

    @property
    def waiting(self) -> int:
        """Number of queued downloads."""
        return len(self._wanted) + len(self._ahead)

    async def close(self) -> None:
        """Cancel the downloads and their waiters."""
        downloads = list(self._downloads.values())
        self._wanted.clear()
        self._ahead.clear()
        if self._later is not None:
            self._later.cancel()
        for download in downloads:
            download.done.cancel()
            if download.task is not None:
                download.task.cancel()
        tasks = [download.task for download in downloads if download.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        self._downloads.clear()
        self._files.close()

    # -- downloads ----------------------------------------------------------------------------------

    def _start_downloads(self) -> None:
        """Start downloads up to the limit, those with waiters first."""
        while self.running < self.max_downloads and (queue := self._wanted or self._ahead):
            if (wait := self.quota.wait()) > 0:
                self._start_later(wait)
                return
            chunk = next(iter(queue))
            room = self._room_for(chunk, is_wanted=queue is self._wanted)
            if room is None:
                return  # called again at the end of a download or by the next reader
            self.running += 1
            self.quota.take(chunk.size)
            download = queue.pop(chunk)
            download.task = asyncio.create_task(self._run(download, room))

    def _room_for(self, chunk: RemoteChunk, *, is_wanted: bool) -> Room | None:
        if not self._reuse.keeps(chunk) and self.memory.reserve(chunk.size):
            return Room(on_disk=False, removed=[])
        removed = self._reserve(chunk.size)
        if removed is not None:
            return Room(on_disk=True, removed=removed)
        if is_wanted and self.memory.reserve(chunk.size, for_nowhere_else=True):
            return Room(on_disk=False, removed=[])
        return None

    def _start_later(self, seconds: float) -> None:
        """Retry later: the read quota is exhausted."""
        if self._later is None:
            self.quota.traffic.held_back(seconds)
            self._later = asyncio.get_running_loop().call_later(seconds, self._start_now)

    def _start_now(self) -> None:
        self._later = None
        self._start_downloads()

    async def _run(self, download: ChunkDownload, room: Room) -> None:
        chunk, began = download.chunk, time.monotonic()
        try:
            if room.removed:
                await self._threads.call(lambda: self._files.remove(room.removed))
            data = await self._get_range(chunk.key, chunk.position, chunk.position + chunk.size)
            await self._threads.call(lambda: _check(chunk, data))
            file = await self._store(chunk, data, on_disk=room.on_disk)
        except Exception as error:
            if not download.done.done():
                download.done.set_exception(_as_store_error(chunk, error))
        else:
            if not download.done.done():
                download.done.set_result(file)
            self.times.observe(time.monotonic() - began)
        finally:
            self._settle(chunk, on_disk=room.on_disk)
            self.running -= 1
            self._downloads.pop(chunk, None)
            self._start_downloads()

    def _settle(self, chunk: RemoteChunk, *, on_disk: bool) -> None:
        """Release the reserved space if it was not used."""
        if on_disk and chunk not in self._here:
            self.used -= chunk.size
        if not on_disk and chunk not in self.memory:
            self.memory.release(chunk.size)
        if chunk not in self._here and chunk not in self.memory:
            self._note_read(chunk)

    async def _store(self, chunk: RemoteChunk, data: Bytes, *, on_disk: bool) -> ReadableFile:
        if on_disk and (file := await self._write(chunk, data)) is not None:
            return file
        if on_disk and not self.memory.reserve(chunk.size, for_nowhere_else=True):
            raise StoreError(f"cannot cache {chunk.key}: the disk of the cache is full")
        self.downloaded_bytes += chunk.size
        return self.memory.keep(chunk, data)

    async def _write(self, chunk: RemoteChunk, data: Bytes) -> ReadableFile | None:
        """Write a chunk; None if the disk is full. Separate function: a stored exception keeps its frame alive."""
        path = self._files.new_path()
        try:
            file = await self._threads.call(lambda: self._files.create(path, data))
        except OSError as error:
            logger.warning(
                "cannot write chunks of remote segments to the cache; sending them from memory: %s", error
            )
            return None
        kept = ChunkFile(path, chunk.size, file)
        self._files.keep_open(kept, file)
        self.downloaded_bytes += chunk.size
        self._here[chunk] = kept
        return file

    # -- space --------------------------------------------------------------------------------------

    def _reserve(self, size: int) -> list[str] | None:
        """Reserve disk space; return the files to remove for it, or None if too many chunks are being read.

        A chunk larger than the whole cache (one huge batch) gets space when the cache is otherwise empty.
        """
        excess = self.used + size - self.limit
        victims = []
        for chunk, kept in self._here.items():
            if excess <= 0:
                break
            if not self._files.is_in_use(kept):
                victims.append(chunk)
                excess -= kept.size
        freed = sum(chunk.size for chunk in victims)
        if excess > 0 and freed < self.used:
            return None
        paths = [self._here[chunk].path for chunk in victims]
        for chunk in victims:
            self._forget(chunk)
        self.evicted += len(victims)
        self.used += size
        return paths

    def _forget(self, chunk: RemoteChunk) -> None:
        kept = self._here.pop(chunk)
        self._note_read(chunk)
        self.used -= kept.size

    def _dropped(self, chunk: RemoteChunk, is_read: bool) -> None:
        """Called when a chunk was evicted from memory."""
        self._note_read(chunk)
        if is_read:
            self._reuse.note_evicted(chunk)

    def _note_read(self, chunk: RemoteChunk) -> None:
        if chunk in self._unread:
            self._unread.discard(chunk)
            self._unread_bytes -= chunk.size


def _check(chunk: RemoteChunk, data: Bytes) -> None:
    """Verify the CRC piecewise in a thread, so that the loop can run in between."""
    view, checksum = memoryview(data), None
    for start in range(0, len(data), CHECKED_AT_ONCE):
        checksum = crc32c(view[start : start + CHECKED_AT_ONCE], checksum)
    if len(data) != chunk.size or checksum != chunk.crc:
        raise BadObjectError(
            f"{chunk.key}: wrong checksum of {chunk.size} bytes at position {chunk.position} (CRC32C)"
        )


def _as_store_error(chunk: RemoteChunk, error: Exception) -> Exception:
    if isinstance(error, StoreError):
        return error
    return StoreError(f"{chunk.key} cannot be read: {error!r}")
