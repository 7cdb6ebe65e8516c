"""The `.log` file of a segment, opened on demand, and the limit on open segments."""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from barnabas.common.files import File, FileSystem
from barnabas.log import names

# -- Limit on the number of segments whose files and indexes are open ----------------------------------

DEFAULT_LIMIT = 512
"""Half of 1,024, the usual limit of open files per process; the other half is for connections."""


class Evictable(Protocol):
    used: bool

    def release(self) -> None: ...


class OpenSegments:
    """Open segments, evicted with the CLOCK algorithm: `used` is the reference bit."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self._ring: deque[Evictable] = deque()

    def __len__(self) -> int:
        return len(self._ring)

    def add(self, segment: Evictable) -> None:
        """Add a segment that was just opened; at the limit, release one that was not used recently."""
        while len(self._ring) >= self.limit:
            candidate = self._ring.popleft()
            if candidate.used:
                candidate.used = False
                self._ring.append(candidate)
            else:
                candidate.release()
        segment.used = True
        self._ring.append(segment)

    def discard(self, segment: Evictable) -> None:
        try:
            self._ring.remove(segment)
        except ValueError:
            return


MAX_RELATIVE_OFFSET: Final = 0x7FFFFFFF  # Kafka reads it from an index entry as a signed 32-bit integer


class SegmentFile:
    """A `.log` file, opened on first use. `size` counts the bytes written, so no stat call is needed."""

    __slots__ = ("_file", "_fs", "_open_segments", "_retired", "base_offset", "folder", "size", "used")

    def __init__(
        self, fs: FileSystem, folder: str, base_offset: int, open_segments: OpenSegments, size: int
    ) -> None:
        self._fs = fs
        self.folder = folder
        self.base_offset = base_offset
        self.size = size
        self.used = False
        self._open_segments = open_segments
        self._file: File | None = None
        self._retired = ""

    def path(self, suffix: str) -> str:
        return names.path_of(self.folder, self.base_offset, suffix) + self._retired

    @property
    def end_of_range(self) -> int:
        """First offset that is too far from the base offset for an index entry of this segment."""
        return self.base_offset + MAX_RELATIVE_OFFSET + 1

    @property
    def file(self) -> File:
        # Another thread may release the file meanwhile, so `_file` is read only once.
        self.used = True
        file = self._file
        return file if file is not None else self.use_file(self._fs.open(self.path(names.LOG)))

    def use_file(self, file: File) -> File:
        """Adopt a file that was just opened or created."""
        self._file = file
        self._open_segments.add(self)
        return file

    def file_to_append(self) -> File:
        """Return the file for an append in another thread.

        Its size is reset to the recorded size: it may have been opened while the previous append was in progress.
        """
        file = self.file
        file.size = self.size
        return file

    def modified_ms(self) -> int:
        return self._fs.modified_ms(self.path(names.LOG))

    def existing_paths(self) -> list[str]:
        """Paths of the segment's files; the `.log` file comes first, as the others depend on it."""
        paths = [self.path(suffix) for suffix in names.SEGMENT_SUFFIXES]
        return [path for path in paths if self._fs.exists(path)]

    def release(self) -> None:
        """Drop the file; it is reopened on demand.

        It is not closed explicitly: a fetch may still be sending a slice of it.
        """
        self._file = None
