"""The local segments of a log, and the positions of its last batches.

With tiered storage, offsets between the log start offset and `base_offset` are only in remote segments, which are
not in this list.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import Final, NamedTuple, overload

from barnabas.common.files import FileSystem
from barnabas.log.segments.segment import Segment

# -- Positions of the last batches of the active segment: reads at the tail need no index lookup -------

KEPT: Final = 64
"""A consumer at the tail fetches one of the very last batches; this many cover a short pause."""


class RecentBatches:
    """The batches of the active segment between offset `start` and the log end offset, without gaps."""

    __slots__ = ("_last_offsets", "_positions", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self._last_offsets: list[int] = []
        self._positions: list[int] = []

    def add(self, last_offset: int, position: int) -> None:
        offsets = self._last_offsets
        offsets.append(last_offset)
        self._positions.append(position)
        if len(offsets) >= 2 * KEPT:
            self.start = offsets[KEPT - 1] + 1
            del offsets[:KEPT], self._positions[:KEPT]

    def restart(self, start: int) -> None:
        """Clear the list after a roll or a truncation."""
        self.start = start
        self._last_offsets.clear()
        self._positions.clear()

    def find(self, offset: int, segment_size: int) -> tuple[int, int]:
        """(position, size) of the first batch that ends at `offset` or later; `start` <= `offset` < log end offset."""
        entry = bisect_left(self._last_offsets, offset)
        position = self._positions[entry]
        following = entry + 1
        end = self._positions[following] if following < len(self._positions) else segment_size
        return position, end - position


_base_offset = attrgetter("base_offset")


class EndCut(NamedTuple):
    """New end of a log to be truncated: `position` in the segment with this `base_offset`."""

    base_offset: int
    position: int
    log_end: int


class Segments:
    """Segments, oldest first. Appends go to the last one, `active`; `tail` has the positions of its last batches."""

    __slots__ = ("_sealed_bytes", "_segments", "active", "tail")

    def __init__(self, segments: list[Segment], log_end: int) -> None:
        self._segments = segments
        self.tail = RecentBatches(log_end)
        self._settle(log_end)

    # -- lookup -------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @overload
    def __getitem__(self, index: int) -> Segment: ...
    @overload
    def __getitem__(self, index: slice) -> list[Segment]: ...
    def __getitem__(self, index: int | slice) -> Segment | list[Segment]:
        return self._segments[index]

    @property
    def size(self) -> int:
        """Total bytes of the `.log` files."""
        return self._sealed_bytes + self.active.size

    @property
    def base_offset(self) -> int:
        """Base offset of the oldest local segment."""
        return self._segments[0].base_offset

    def number_of(self, offset: int) -> int:
        """Index of the segment that `offset` belongs to."""
        return number_in(self._segments, offset)

    def since(self, offset: int) -> list[Segment]:
        """The segment that `offset` belongs to, and those after it."""
        return self._segments[number_in(self._segments, offset) :]

    # -- append -------------------------------------------------------------------------------------

    def roll(self, fresh: Segment) -> None:
        """Make a new segment, whose base offset is the log end offset, the active one."""
        self._segments.append(fresh)
        self._settle(fresh.base_offset)

    def note_append(self, size: int, last_offset: int, max_timestamp: int, index_interval: int) -> None:
        """Record a batch that another thread appended to the active segment."""
        self.tail.add(last_offset, self.active.size)
        self.active.note_write(size, last_offset, max_timestamp, index_interval)

    # -- retention and compaction -------------------------------------------------------------------

    def remove(self, segment: Segment) -> None:
        self._segments.remove(segment)
        self._sealed_bytes -= segment.size

    def insert(self, segment: Segment) -> None:
        """Insert the compacted segment that replaces the removed ones."""
        self._segments.insert(bisect_right(self._segments, segment.base_offset, key=_base_offset), segment)
        self._sealed_bytes += segment.size

    # -- truncation ---------------------------------------------------------------------------------

    def find_cut(self, offset: int) -> EndCut:
        """Return the position of the first batch that ends at `offset` or later: the log is truncated there."""
        last = self._segments[self.number_of(offset)]
        batch = last.locate(offset)
        if batch is None:
            return EndCut(last.base_offset, last.size, offset)
        position, header = batch
        return EndCut(last.base_offset, position, header.base_offset if position else last.base_offset)

    def cut(self, cut: EndCut, fs: FileSystem) -> None:
        """Remove everything after the cut, last segment first, so that a crash leaves no gap."""
        while self._segments[-1].base_offset > cut.base_offset:
            _remove_files(self._segments.pop(), fs)
        last = self._segments[-1]
        if cut.position < last.size:
            last.truncate(cut.position)
        self._settle(cut.log_end)

    def replace_all(self, fresh: Segment) -> list[Segment]:
        """Start over with one segment. Return the previous ones, whose files the caller deletes."""
        before, self._segments = self._segments, []
        for segment in before:
            segment.forget()
        self.roll(fresh)
        return before

    def _settle(self, log_end: int) -> None:
        self.active = self._segments[-1]
        self._sealed_bytes = sum(segment.size for segment in self._segments[:-1])
        self.tail.restart(log_end)

    # -- moving and closing -------------------------------------------------------------------------

    def move_to(self, folder: str) -> None:
        """Set the folder after the files were moved there."""
        for segment in self._segments:
            segment.folder = folder

    def forget(self) -> None:
        """Release the files without saving: they are deleted, lost, or owned by another log."""
        for segment in self._segments:
            segment.forget()


def number_in(segments: list[Segment], offset: int) -> int:
    """Index of the segment that `offset` belongs to."""
    return max(bisect_right(segments, offset, key=_base_offset) - 1, 0)


def _remove_files(segment: Segment, fs: FileSystem) -> None:
    segment.forget()
    for path in segment.existing_paths():
        fs.remove(path)
