"""Chunks in memory, and the choice of logs to cache on disk.

Most chunks are read once, from beginning to end, by one sequential reader. Writing those to a file costs more CPU than
everything else. A chunk is therefore kept in memory and evicted when it was read to its end and the space is needed. If
it is read again, its log is read more than once: from then on the chunks of that log go to disk (`Reuse`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple
from weakref import ref

from barnabas.common.files import Bytes, MemoryFile

STALE = 64
"""Downloads since the last use of a chunk, after which its reader counts as disconnected or very slow."""


class RemoteChunk(NamedTuple):
    """Whole batches of a segment object, about 4 MiB."""

    key: str
    position: int
    size: int
    crc: int

    @property
    def folder(self) -> str:
        """Folder of its partition."""
        return self.key.rpartition("/")[0]


class ChunkMemory:
    """Chunks of at most `limit` bytes, including reserved space. Referenced chunks are not evicted."""

    def __init__(self, limit: int, dropped: Callable[[RemoteChunk, bool], None]) -> None:
        self.limit = limit
        self._dropped = dropped  # called with an evicted chunk and whether it was read to its end
        self._files: OrderedDict[RemoteChunk, MemoryFile] = OrderedDict()  # by last use
        self._used_at: dict[RemoteChunk, int] = {}
        self._read: set[RemoteChunk] = set()  # to the end
        self._reserved = 0
        self._downloads = 0
        self.used = 0
        """Bytes of cached chunks."""

    def __contains__(self, chunk: RemoteChunk) -> bool:
        return chunk in self._files

    def find(self, chunk: RemoteChunk) -> MemoryFile | None:
        file = self._files.get(chunk)
        if file is not None:
            self._files.move_to_end(chunk)
            self._used_at[chunk] = self._downloads
        return file

    def reserve(self, size: int, *, for_nowhere_else: bool = False) -> bool:
        """Reserve space for a download. A download larger than the limit gets space when there is nothing else. Chunks
        not read to their end are evicted only with `for_nowhere_else`: the disk has no space either."""
        self._downloads += 1
        for chunk in list(self._files):
            if self._has_room_for(size):
                break
            is_stale = self._downloads - self._used_at[chunk] > STALE
            if for_nowhere_else or is_stale or chunk in self._read:
                self._drop(chunk)
        if not self._has_room_for(size):
            return False
        self._reserved += size
        return True

    def release(self, size: int) -> None:
        """Release the reserved space of a download."""
        self._reserved -= size

    def keep(self, chunk: RemoteChunk, data: Bytes) -> MemoryFile:
        """Store a downloaded chunk in its reserved space."""
        self._reserved -= chunk.size
        file = self._files[chunk] = MemoryFile(chunk.key, data)
        self._used_at[chunk] = self._downloads
        self.used += chunk.size
        return file

    def note_end(self, chunk: RemoteChunk) -> None:
        """Record that a reader has read the chunk to the end."""
        if chunk in self._files:
            self._read.add(chunk)

    def is_read(self, chunk: RemoteChunk) -> bool:
        return chunk in self._read

    def _has_room_for(self, size: int) -> bool:
        taken = self.used + self._reserved
        return taken == 0 or taken + size <= self.limit

    def _drop(self, chunk: RemoteChunk) -> None:
        """Evict a chunk unless it is being sent."""
        reference = ref(self._files.pop(chunk))
        if (file := reference()) is not None:
            self._files[chunk] = file
            return
        del self._used_at[chunk]
        self.used -= chunk.size
        self._dropped(chunk, chunk in self._read)
        self._read.discard(chunk)


class Reuse:
    """Tracks logs that are read repeatedly within a window of `limit` bytes, the size of the disk cache."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._gone: OrderedDict[RemoteChunk, None] = OrderedDict()  # read once and evicted
        self._gone_bytes = 0
        self._kept: dict[str, int] = {}  # folder of a log -> bytes still to be kept on disk

    def keeps(self, chunk: RemoteChunk) -> bool:
        """True if the chunk should be cached on disk. Called once per download."""
        left = self._kept.pop(chunk.folder, 0)
        if left > chunk.size:
            self._kept[chunk.folder] = left - chunk.size
        return left > 0

    def note_evicted(self, chunk: RemoteChunk) -> None:
        """Record the eviction of a chunk that was read once."""
        self._gone[chunk] = None
        self._gone_bytes += chunk.size
        while self._gone_bytes > self._limit():
            oldest, _ = self._gone.popitem(last=False)
            self._gone_bytes -= oldest.size

    def note_missed(self, chunk: RemoteChunk) -> None:
        """Record a cache miss; a recently evicted chunk counts as a repeated read."""
        if chunk in self._gone:
            del self._gone[chunk]
            self._gone_bytes -= chunk.size
            self.note_again(chunk)

    def note_again(self, chunk: RemoteChunk) -> None:
        """Record another read of a chunk that was read to its end."""
        self._kept[chunk.folder] = self._limit()
