"""The two sparse indexes of a segment: offset -> position and timestamp -> offset.

Entries are kept in arrays, which bisect searches at C speed, and written to the index files when the segment is
sealed or closed (docs/decisions/0010). Everything in them can be derived from the segment, so a missing or
invalid file is rebuilt.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct

from barnabas.common.files import FileSystem

_OFFSET_ENTRY_SIZE = 8  # offset relative to the segment's base, position in the .log file
_TIME_ENTRY = Struct(">qI")  # timestamp, relative offset
_LAST_TIME_ENTRIES = 2 * _TIME_ENTRY.size
_UNSIGNED_INT = "I"
_LONG = "q"


class IndexFileError(ValueError):
    """The index file is invalid and has to be rebuilt from the segment."""


class OffsetIndex:
    """Entries (last offset of a batch, position of that batch), both ascending."""

    __slots__ = ("offsets", "positions")

    def __init__(self) -> None:
        self.offsets = array(_UNSIGNED_INT)
        self.positions = array(_UNSIGNED_INT)

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, relative_offset: int, position: int) -> None:
        self.offsets.append(relative_offset)
        self.positions.append(position)

    def lookup(self, relative_offset: int) -> int:
        """Return a position at or before the batch that contains the offset, to start a scan from."""
        entry = bisect_right(self.offsets, relative_offset) - 1
        return self.positions[entry] if entry >= 0 else 0

    def truncate(self, position: int) -> None:
        """Remove the entries of batches that start at `position` or later."""
        keep = bisect_left(self.positions, position)
        del self.offsets[keep:]
        del self.positions[keep:]

    def to_bytes(self) -> bytes:
        entries = array(_UNSIGNED_INT, bytes(_OFFSET_ENTRY_SIZE * len(self)))
        entries[0::2] = self.offsets
        entries[1::2] = self.positions
        return big_endian(entries).tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, segment_size: int) -> OffsetIndex:
        if len(data) % _OFFSET_ENTRY_SIZE:
            raise IndexFileError(f"{len(data)} bytes are not a whole number of entries")
        entries = array(_UNSIGNED_INT)
        entries.frombytes(data)
        big_endian(entries)
        index = cls()
        index.offsets, index.positions = entries[0::2], entries[1::2]
        if not (_ascends(index.offsets) and _ascends(index.positions)):
            raise IndexFileError("entries are out of order")
        if index.positions and index.positions[-1] >= segment_size:
            raise IndexFileError("an entry points past the end of the segment")
        return index


class TimeIndex:
    """Entries (highest timestamp so far, last offset of the batch that holds it), both ascending."""

    __slots__ = ("offsets", "timestamps")

    def __init__(self) -> None:
        self.timestamps = array(_LONG)
        self.offsets = array(_UNSIGNED_INT)

    def __len__(self) -> int:
        return len(self.timestamps)

    def append(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry if its timestamp is larger than the last one."""
        if not self.timestamps or timestamp > self.timestamps[-1]:
            self.timestamps.append(timestamp)
            self.offsets.append(relative_offset)

    def lookup(self, timestamp: int) -> int:
        """Return a relative offset to start a scan from: all earlier records have smaller timestamps."""
        entry = bisect_left(self.timestamps, timestamp) - 1
        return self.offsets[entry] if entry >= 0 else 0

    def truncate(self, relative_offset: int) -> None:
        """Remove the entries at `relative_offset` or later."""
        keep = bisect_left(self.offsets, relative_offset)
        del self.timestamps[keep:]
        del self.offsets[keep:]

    def to_bytes(self) -> bytes:
        return b"".join(map(_TIME_ENTRY.pack, self.timestamps, self.offsets))

    @classmethod
    def from_bytes(cls, data: bytes) -> TimeIndex:
        if len(data) % _TIME_ENTRY.size:
            raise IndexFileError(f"{len(data)} bytes are not a whole number of entries")
        index = cls()
        for timestamp, offset in _TIME_ENTRY.iter_unpack(data):
            index.timestamps.append(timestamp)
            index.offsets.append(offset)
        if not (_ascends(index.timestamps) and _never_descends(index.offsets)):
            raise IndexFileError("entries are out of order")
        return index


def read_last_time_entry(fs: FileSystem, path: str) -> tuple[int, int] | None:
    """Return the last entry, (timestamp, relative offset), of a file; None if it is missing or invalid."""
    try:
        file = fs.open(path)
    except FileNotFoundError:
        return None
    try:
        return _last_time_entry(
            file.read(_LAST_TIME_ENTRIES, max(file.size - _LAST_TIME_ENTRIES, 0)), file.size
        )
    except IndexFileError:
        return None
    finally:
        file.close()


def _last_time_entry(end: bytes, file_size: int) -> tuple[int, int]:
    """Return the last of the one or two entries in `end`; raise IndexFileError if they are invalid."""
    if not end or file_size % _TIME_ENTRY.size:
        raise IndexFileError(f"{file_size} bytes are not a whole number of entries")
    entries = list(_TIME_ENTRY.iter_unpack(end))
    timestamp, offset = entries[-1]
    if timestamp <= 0 or (len(entries) > 1 and entries[0][0] >= timestamp):
        raise IndexFileError("entries are out of order")
    return timestamp, offset


def big_endian(numbers: array[int]) -> array[int]:
    """Convert between native and big-endian byte order, in place."""
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def _ascends(numbers: array[int]) -> bool:
    values = numbers.tolist()
    return len(set(values)) == len(values) and values == sorted(values)


def _never_descends(numbers: array[int]) -> bool:
    values = numbers.tolist()
    return values == sorted(values)
