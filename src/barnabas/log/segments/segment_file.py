"""The `.log` file of a segment: where it is, and when it is open."""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from barnabas.common.files import File, FileSystem
from barnabas.log import names

# -- A bound on the number of segments whose files and indexes are held open ---------------------------

DEFAULT_LIMIT = 512
"""Half of 1,024, the usual limit of open files of a process; the rest is for connections."""


class Evictable(Protocol):
    used: bool

    def release(self) -> None: ...


class OpenSegments:
    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self._ring: deque[Evictable] = deque()

    def __len__(self) -> int:
        return len(self._ring)

    def add(self, segment: Evictable) -> None:
        """Count a segment that has just been opened; another one may have to give way."""
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


MAX_RELATIVE_OFFSET: Final = 0x7FFFFFFF  # an index entry holds it in a signed int of Java


class SegmentFile:
    """`size` is what is written, known without asking the disk. The file is opened when it is asked for."""

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
        """An offset that no batch of this segment reaches: index entries could not name it."""
        return self.base_offset + MAX_RELATIVE_OFFSET + 1

    @property
    def file(self) -> File:
        # A look-up in another thread may be here too: what was found once is returned, whatever comes.
        self.used = True
        file = self._file
        return file if file is not None else self.use_file(self._fs.open(self.path(names.LOG)))

    def use_file(self, file: File) -> File:
        """It was opened, or created."""
        self._file = file
        self._open_segments.add(self)
        return file

    def file_to_append(self) -> File:
        """For a thread that appends to it. It may have been opened while the last such append was under way."""
        file = self.file
        file.size = self.size
        return file

    def modified_ms(self) -> int:
        return self._fs.modified_ms(self.path(names.LOG))

    def existing_paths(self) -> list[str]:
        """The segment's files, the log itself first: without it the others mean nothing."""
        paths = [self.path(suffix) for suffix in names.SEGMENT_SUFFIXES]
        return [path for path in paths if self._fs.exists(path)]

    def release(self) -> None:
        """Give back the file; it is opened again when needed.

        It is dropped, not closed: a fetch may still be sending a slice of it.
        """
        self._file = None
