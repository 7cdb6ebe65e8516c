"""The segments of a log, and what is known of its tail.

The seam where remote segments come in (tiered storage): here are the segments on this disk. What lies between the log
start and `base_offset` is elsewhere.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import Final, NamedTuple, overload

from barnabas.common.files import FileSystem
from barnabas.log.segments.segment import Segment

# -- Where the last few batches of the active segment start, so that readers at the tail need no index -

KEPT: Final = 64
"""A consumer that follows the end asks for one of the very last batches; this many cover a short pause."""


class Tail:
    """Batches of the active segment from offset `start` on, without a gap up to the log end."""

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
        """Another segment is active now, or the old one was cut."""
        self.start = start
        self._last_offsets.clear()
        self._positions.clear()

    def find(self, offset: int, segment_size: int) -> tuple[int, int]:
        """(position, size) of the batch that ends at `offset` or later; `start` <= `offset` < log end."""
        entry = bisect_left(self._last_offsets, offset)
        position = self._positions[entry]
        following = entry + 1
        end = self._positions[following] if following < len(self._positions) else segment_size
        return position, end - position


_base_offset = attrgetter("base_offset")


class EndCut(NamedTuple):
    """Where a log is going to end: at `position` of the segment that starts at `base_offset`."""

    base_offset: int
    position: int
    log_end: int


class Segments:
    """Oldest first. The last one is `active` and grows; `tail` knows where the last batches of it begin."""

    __slots__ = ("_sealed_bytes", "_segments", "active", "tail")

    def __init__(self, segments: list[Segment], log_end: int) -> None:
        self._segments = segments
        self.tail = Tail(log_end)
        self._settle(log_end)

    # -- looking ------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @overload
    def __getitem__(self, place: int) -> Segment: ...
    @overload
    def __getitem__(self, place: slice) -> list[Segment]: ...
    def __getitem__(self, place: int | slice) -> Segment | list[Segment]:
        return self._segments[place]

    @property
    def size(self) -> int:
        """In bytes."""
        return self._sealed_bytes + self.active.size

    @property
    def base_offset(self) -> int:
        """The first offset that is on this disk."""
        return self._segments[0].base_offset

    def number_of(self, offset: int) -> int:
        """The index of the segment that `offset` belongs to."""
        return number_in(self._segments, offset)

    def since(self, offset: int) -> list[Segment]:
        """The segment that `offset` belongs to, and those after it."""
        return self._segments[number_in(self._segments, offset) :]

    # -- growing ------------------------------------------------------------------------------------

    def roll(self, fresh: Segment) -> None:
        """A new segment, which starts at the log end, is active from now on."""
        self._segments.append(fresh)
        self._settle(fresh.base_offset)

    def note_append(self, size: int, last_offset: int, max_timestamp: int, index_interval: int) -> None:
        """A thread has written a batch at the end of the active segment."""
        self.tail.add(last_offset, self.active.size)
        self.active.note_write(size, last_offset, max_timestamp, index_interval)

    # -- retention and compaction -------------------------------------------------------------------

    def remove(self, segment: Segment) -> None:
        self._segments.remove(segment)
        self._sealed_bytes -= segment.size

    def insert(self, segment: Segment) -> None:
        """A compacted segment takes the place of those that were removed."""
        self._segments.insert(bisect_right(self._segments, segment.base_offset, key=_base_offset), segment)
        self._sealed_bytes += segment.size

    # -- truncation ---------------------------------------------------------------------------------

    def find_cut(self, offset: int) -> EndCut:
        """The place of the first batch that ends at `offset` or later."""
        last = self._segments[self.number_of(offset)]
        found = last.locate(offset)
        if found is None:
            return EndCut(last.base_offset, last.size, offset)
        position, header = found
        return EndCut(last.base_offset, position, header.base_offset if position else last.base_offset)

    def cut(self, cut: EndCut, fs: FileSystem) -> None:
        """Remove what lies behind the cut: from the back to the front, so that a crash leaves no gap."""
        while self._segments[-1].base_offset > cut.base_offset:
            _remove_files(self._segments.pop(), fs)
        last = self._segments[-1]
        if cut.position < last.size:
            last.truncate(cut.position)
        self._settle(cut.log_end)

    def replace_all(self, fresh: Segment) -> list[Segment]:
        """The log starts over with one segment; those that it had, whose files are the caller's business."""
        before, self._segments = self._segments, []
        for segment in before:
            segment.forget()
        self.roll(fresh)
        return before

    def _settle(self, log_end: int) -> None:
        self.active = self._segments[-1]
        self._sealed_bytes = sum(segment.size for segment in self._segments[:-1])
        self.tail.restart(log_end)

    # -- another folder -----------------------------------------------------------------------------

    def move_to(self, folder: str) -> None:
        """Their files are in this folder by now."""
        for segment in self._segments:
            segment.folder = folder

    def forget(self) -> None:
        """Give back the files and save nothing: they are removed, lost, or not ours any more."""
        for segment in self._segments:
            segment.forget()


def number_in(segments: list[Segment], offset: int) -> int:
    """The index of the segment that `offset` belongs to."""
    return max(bisect_right(segments, offset, key=_base_offset) - 1, 0)


def _remove_files(segment: Segment, fs: FileSystem) -> None:
    segment.forget()
    for path in segment.existing_paths():
        fs.remove(path)
