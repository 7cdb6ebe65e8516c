"""Chunks of segment objects on this disk: downloaded once for all that wait, and sent from there by `sendfile`.

    load(chunk)    wait until it is here. A waiter that gives up does not end the download
    ahead(chunk)   download it when nobody waits for anything else
    find(chunk)    its file, if it is here

Bounds. Disk: `limit` bytes, reserved before a download begins; the chunks that were not used for longest make room,
except those whose file somebody is reading. Downloads: `most_downloads` at once, and each holds its bytes in memory
until they are in the file. If the disk is full, or all of the cache is being read, up to ten chunks are served from
memory; beyond that, downloads wait. Rate: downloads wait while the quota is used up. Chunks that were read ahead and
not used yet take at most half of the cache: many readers do not throw out what others are about to read.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol, TypeVar

from fastcrc.crc32 import iscsi as crc32c

from barnabas.files import Bytes, File
from barnabas.log_lines import limited_logger
from barnabas.metrics.registry import Histogram
from barnabas.tiering.objects.segment_object import CHUNK_BYTES, BadObjectError
from barnabas.tiering.reading.chunk_files import ChunkFile, ChunkFiles, file_in_memory
from barnabas.tiering.stores.store import StoreError
from barnabas.tiering.stores.traffic import ReadQuota

CHUNKS_IN_MEMORY = 10
CHECKED_AT_ONCE = 512 << 10
"""Bytes; a checksum holds the interpreter's lock while it is computed."""

logger = limited_logger(__name__)
T = TypeVar("T")

GetRange = Callable[[str, int, int], Awaitable[Bytes]]


class Threads(Protocol):
    async def call(self, work: Callable[[], T]) -> T:
        """Run something that waits for the disk elsewhere."""
        ...


class RemoteChunk(NamedTuple):
    """Whole batches of a segment object, about 4 MiB."""

    key: str
    position: int
    size: int
    crc: int


class Download:
    """One chunk on its way here."""

    __slots__ = ("chunk", "done", "task")

    def __init__(self, chunk: RemoteChunk) -> None:
        self.chunk = chunk
        self.done: asyncio.Future[File] = asyncio.get_running_loop().create_future()
        self.done.add_done_callback(_look_at)
        self.task: asyncio.Task[None] | None = None


def _look_at(done: asyncio.Future[File]) -> None:
    """Nobody may wait for it any more: asyncio would complain of an error that nobody has looked at."""
    if not done.cancelled():
        done.exception()


class ChunkCache:
    """Belongs to one loop. `get_range` tries again by itself where that helps."""

    def __init__(
        self,
        get_range: GetRange,
        files: ChunkFiles,
        threads: Threads,
        *,
        limit: int,
        most_downloads: int,
        memory_limit: int = CHUNKS_IN_MEMORY * CHUNK_BYTES,
        quota: ReadQuota | None = None,
    ) -> None:
        self._get_range = get_range
        self._files = files
        self._threads = threads
        self.limit = limit
        self.most_downloads = most_downloads
        self.memory_limit = memory_limit
        self.quota = quota or ReadQuota(time.monotonic)
        self._later: asyncio.TimerHandle | None = None
        self._here: OrderedDict[RemoteChunk, ChunkFile] = OrderedDict()  # by last use
        self._downloads: dict[RemoteChunk, Download] = {}
        self._wanted: dict[RemoteChunk, Download] = {}  # of those: not begun, and somebody waits
        self._ahead: dict[RemoteChunk, Download] = {}  # not begun, and nobody waits
        self._unread: set[RemoteChunk] = set()  # read ahead, and not used yet
        self._unread_bytes = 0
        self._in_memory: list[ChunkFile] = []
        self._memory_reserved = 0
        self.used = 0
        """Bytes on the disk, those included that are on their way."""
        self.running = 0
        self.times = Histogram()
        """Of downloads, in seconds."""
        self.hits = self.misses = self.evicted = self.downloaded_bytes = 0

    # -- what readers ask ---------------------------------------------------------------------------

    def find(self, chunk: RemoteChunk) -> File | None:
        """Its file, which stays as it is while somebody refers to it."""
        found = self._here.get(chunk)
        if found is None:
            return None
        file = self._files.open(found)
        if file is None:
            self._forget(chunk)
            return None
        self._here.move_to_end(chunk)
        self._note_read(chunk)
        return file

    async def load(self, chunk: RemoteChunk) -> File:
        """Wait for its file. StoreError if it cannot be had."""
        file = self.find(chunk)
        if file is not None:
            self.hits += 1
            return file
        self.misses += 1
        download = self._downloads.get(chunk)
        if download is None:
            download = self._downloads[chunk] = self._wanted[chunk] = Download(chunk)
        elif self._ahead.pop(chunk, None) is not None:
            self._wanted[chunk] = download
        self._note_read(chunk)
        self._start_downloads()
        return await asyncio.shield(download.done)

    def ahead(self, chunk: RemoteChunk) -> bool:
        """Somebody will ask for it soon. False if there is no room for more of these."""
        if chunk in self._here or chunk in self._downloads:
            return True
        if self._unread_bytes + chunk.size > self.limit // 2:
            return False
        self._unread.add(chunk)
        self._unread_bytes += chunk.size
        self._downloads[chunk] = self._ahead[chunk] = Download(chunk)
        self._start_downloads()
        return True

    @property
    def waiting(self) -> int:
        """Downloads that have not begun."""
        return len(self._wanted) + len(self._ahead)

    async def close(self) -> None:
        """End the downloads; those who wait for one are cancelled."""
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
        """As many as may run: first those that somebody waits for."""
        while self.running < self.most_downloads and (queue := self._wanted or self._ahead):
            if (wait := self.quota.wait()) > 0:
                self._start_later(wait)
                return
            chunk = next(iter(queue))
            removed = self._reserve(chunk.size)
            if removed is None:
                if queue is self._ahead or not self._has_memory_for(chunk.size):
                    return  # the next end of a download, or the next reader, comes here again
                self._memory_reserved += chunk.size
            self.running += 1
            self.quota.take(chunk.size)
            download = queue.pop(chunk)
            download.task = asyncio.create_task(self._run(download, removed))

    def _start_later(self, seconds: float) -> None:
        """So much was read of late that the quota is used up: whoever waits goes on waiting."""
        if self._later is None:
            self.quota.traffic.held_back(seconds)
            self._later = asyncio.get_running_loop().call_later(seconds, self._start_now)

    def _start_now(self) -> None:
        self._later = None
        self._start_downloads()

    async def _run(self, download: Download, removed: list[str] | None) -> None:
        """With `removed`, room on the disk is reserved, and these files make it. Else room in memory is."""
        chunk, began = download.chunk, time.monotonic()
        try:
            if removed:
                await self._threads.call(lambda: self._files.remove(removed))
            data = await self._get_range(chunk.key, chunk.position, chunk.position + chunk.size)
            await self._threads.call(lambda: _check(chunk, data))
            file = await self._store(chunk, data, on_disk=removed is not None)
        except Exception as error:
            if not download.done.done():
                download.done.set_exception(_as_store_error(chunk, error))
        else:
            if not download.done.done():
                download.done.set_result(file)
            self.times.observe(time.monotonic() - began)
        finally:
            self._settle(chunk, on_disk=removed is not None)
            self.running -= 1
            self._downloads.pop(chunk, None)
            self._start_downloads()

    def _settle(self, chunk: RemoteChunk, *, on_disk: bool) -> None:
        """Give back the room that was reserved, if it was not taken."""
        kept = self._here.get(chunk)
        if not on_disk:
            self._memory_reserved -= chunk.size
        elif kept is None or not kept.path:
            self.used -= chunk.size
        if kept is None:
            self._note_read(chunk)

    async def _store(self, chunk: RemoteChunk, data: Bytes, *, on_disk: bool) -> File:
        if on_disk and (file := await self._write(chunk, data)) is not None:
            return file
        if on_disk and not self._has_memory_for(chunk.size):
            raise StoreError(f"{chunk.key} cannot be kept: the disk of the cache is full")
        file = file_in_memory(data)
        kept = ChunkFile("", chunk.size, file)
        self._in_memory.append(kept)
        self._note_here(chunk, kept)
        return file

    async def _write(self, chunk: RemoteChunk, data: Bytes) -> File | None:
        """None if the disk is full. A function of its own: an error may live for a while, and refers to its frame."""
        path = self._files.new_path()
        try:
            file = await self._threads.call(lambda: self._files.create(path, data))
        except OSError as error:
            logger.warning("chunks of remote segments are sent from memory: %s", error)
            return None
        kept = ChunkFile(path, chunk.size, file)
        self._files.keep_open(kept, file)
        self._note_here(chunk, kept)
        return file

    def _note_here(self, chunk: RemoteChunk, kept: ChunkFile) -> None:
        self.downloaded_bytes += chunk.size
        self._here[chunk] = kept

    # -- room ---------------------------------------------------------------------------------------

    def _reserve(self, size: int) -> list[str] | None:
        """Take room on the disk: the files that have to be removed for it. None if too much is being read.

        A chunk that is larger than the whole cache (one huge batch) gets room when there is nothing else.
        """
        excess = self.used + size - self.limit
        victims = []
        for chunk, kept in self._here.items():
            if excess <= 0:
                break
            if kept.path and not self._files.is_in_use(kept):
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
        if kept.path:
            self.used -= kept.size

    def _has_memory_for(self, size: int) -> bool:
        used = self.memory_used + self._memory_reserved
        return used == 0 or used + size <= self.memory_limit

    @property
    def memory_used(self) -> int:
        """Bytes of chunks that are sent from memory."""
        self._in_memory = [kept for kept in self._in_memory if kept.reference() is not None]
        return sum(kept.size for kept in self._in_memory)

    def _note_read(self, chunk: RemoteChunk) -> None:
        if chunk in self._unread:
            self._unread.discard(chunk)
            self._unread_bytes -= chunk.size


def _check(chunk: RemoteChunk, data: Bytes) -> None:
    """In a thread, in pieces: the loop goes on in between."""
    view, checksum = memoryview(data), None
    for start in range(0, len(data), CHECKED_AT_ONCE):
        checksum = crc32c(view[start : start + CHECKED_AT_ONCE], checksum)
    if len(data) != chunk.size or checksum != chunk.crc:
        raise BadObjectError(
            f"{chunk.key} has other bytes at {chunk.position} than were written ({chunk.size} bytes, CRC32C)"
        )


def _as_store_error(chunk: RemoteChunk, error: Exception) -> Exception:
    if isinstance(error, StoreError):
        return error
    return StoreError(f"{chunk.key} cannot be read: {error!r}")
