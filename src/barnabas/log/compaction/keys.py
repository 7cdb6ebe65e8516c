"""First pass: the location of the last record of every key in the dirty part of a log.

This module and `retained_records.py` have the inner loops of compaction. They parse only keys and record boundaries,
at a quarter of the cost of building a `Record` each. A *location* is one integer with the offset of a record and its
position in the data of its batch, so the second pass finds the retained records without parsing the others.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from struct import Struct
from typing import NamedTuple

from barnabas.records import read_varint, varint

# -- Fast path for runs of records with equal size and key length --------------------------------------
# With values of a fixed size (counters, states, fixed schemas) a run often covers a whole batch. A regular expression
# finds the end of the run and a `struct` its keys, several times as fast as a Python loop over the bytes.

MIN_RUN = 8  # shorter runs are not worth the overhead


class RecordShape(NamedTuple):
    """Layout of a record's bytes."""

    length: bytes  # the encoded length field
    timestamp_width: int
    delta_width: int
    key_length: int
    rest: int  # bytes after the key: value and headers

    @property
    def before_key(self) -> int:
        return len(self.length) + 1 + self.timestamp_width + self.delta_width + 1

    @property
    def size(self) -> int:
        return self.before_key + self.key_length + self.rest


class _Reader(NamedTuple):
    run: re.Pattern[bytes]
    """Matches consecutive records of one shape, each with a key and a value."""
    key: Struct
    """Unpacks the key of such a record."""


@lru_cache(maxsize=256)
def _reader(shape: RecordShape) -> _Reader:
    record = b"%b.[\\x80-\\xff]{%d}[\\x00-\\x7f].{%d}%b.{%d}[^\\x01].{%d}" % (
        re.escape(shape.length),
        shape.timestamp_width - 1,
        shape.delta_width,
        re.escape(varint(shape.key_length)),
        shape.key_length,
        shape.rest - 1,  # the byte before starts the length of the value; 1 encodes a null value
    )
    return _Reader(
        re.compile(b"(?s)(?:%b)*+" % record), Struct(f"{shape.before_key}x{shape.key_length}s{shape.rest}x")
    )


def shape_at(data: bytes, position: int, delta_width: int, longest_key: int) -> RecordShape | None:
    """Return the shape of a record; None if it has no key or a long one.

    Raise IndexError or ValueError if the record is malformed.
    """
    length, start = read_varint(data, position)
    _, after_timestamp = read_varint(data, start + 1)
    key_length, key = read_varint(data, after_timestamp + delta_width)
    rest = start + length - key - key_length
    if not 0 <= key_length <= longest_key or rest < 2 or key != after_timestamp + delta_width + 1:
        return None
    return RecordShape(data[position:start], after_timestamp - start - 1, delta_width, key_length, rest)


def note_run(
    data: bytes,
    position: int,
    max_count: int,
    shape: RecordShape,
    location: int,
    step: int,
    latest: dict[bytes, int],
) -> int:
    """Record the keys of up to `max_count` records of this shape from `position` on; return their number.

    The location of the first one is `location`; from each to the next it grows by `step` plus the record size.
    """
    size = shape.size
    reader = _reader(shape)
    run = reader.run.match(data, position, min(len(data), position + max_count * size))
    assert run is not None
    count = (run.end() - position) // size
    if count < MIN_RUN:
        return 0
    keys = chain.from_iterable(reader.key.iter_unpack(memoryview(data)[position : run.end()]))
    locations = range(location, location + count * (step + size), step + size)
    for key, each in zip(keys, locations, strict=True):
        latest[key] = each  # noqa: PERF403 - measured: 10 % faster than `update`
    return count


MAX_OWN_KEY = 32
"""Longer keys are replaced by a digest, which is one byte longer than this, so that no short key equals it."""
BYTES_PER_KEY = 200
"""Memory of a dictionary entry with key and location, measured while the dictionary grows (tests/log/compaction)."""

POSITION_BITS = 27  # the data of a batch have at most 100 MiB (records/compression.py)
POSITION_MASK = (1 << POSITION_BITS) - 1
OFFSET_RANGE = 1 << 63 - POSITION_BITS
"""Offsets that one compaction can cover, relative to `KeyMap.origin`: a location has 63 bits."""
_NEXT_OFFSET = 1 << POSITION_BITS

NULL = 1  # the length -1, as one byte
_MAX_PLAIN_LENGTH = 2 * MAX_OWN_KEY  # as an encoded (zigzag) varint


def stand_in(key: bytes) -> bytes:
    """Return the key itself, or its digest if it is longer than MAX_OWN_KEY."""
    if len(key) <= MAX_OWN_KEY:
        return key
    return blake2b(key, digest_size=MAX_OWN_KEY + 1).digest()


class KeyMap:
    """Last location of every key, in bounded memory. Offsets are relative to `origin`."""

    def __init__(self, memory_bytes: int, origin: int = 0) -> None:
        self.limit = max(memory_bytes // BYTES_PER_KEY, 1)
        self.origin = origin
        self.latest: dict[bytes, int] = {}
        self.irregular: set[int] = set()
        """Base offsets of batches for which `survivors_in` is not sufficient: with tombstones or offset gaps."""
        self._survivors = array("q")

    def has_room_for(self, records: int, last_offset: int) -> bool:
        """True if the keys of a batch fit; always for the first batch, or there would be no progress."""
        if not self.latest:
            return True
        return len(self.latest) + records <= self.limit and last_offset - self.origin < OFFSET_RANGE

    def note(self, data: bytes, count: int, base_offset: int, last_offset: int) -> None:
        """Record the keys of a batch."""
        first_location = (base_offset - self.origin) << POSITION_BITS
        has_gaps = last_offset - base_offset + 1 != count
        note = note_keys_with_gaps if has_gaps else note_keys
        if not note(data, count, first_location, self.latest) or has_gaps:
            self.irregular.add(base_offset)

    def finish(self) -> None:
        """Sort the locations of the last records, after all keys were recorded."""
        self._survivors = array("q", sorted(self.latest.values()))

    def survivors_in(self, first_offset: int, last_offset: int) -> list[int]:
        """Positions, in the data of their batch, of the records in this range that are the last of their key."""
        survivors = self._survivors
        start = bisect_left(survivors, (first_offset - self.origin) << POSITION_BITS)
        end = bisect_left(survivors, (last_offset + 1 - self.origin) << POSITION_BITS, start)
        return [location & POSITION_MASK for location in survivors[start:end]]

    @property
    def used(self) -> float:
        return len(self.latest) / self.limit


_DELTA_WIDTHS = ((1 << 6, 1), (1 << 13, 2), (1 << 20, 3), (1 << 27, 4), (1 << 34, 5))
"""(upper bound, bytes): encoded size of an offset delta below the bound."""


def note_keys(data: bytes, count: int, first_location: int, latest: dict[bytes, int]) -> bool:
    """Record the location of every key of a batch without offset gaps; return True if it has no tombstones.

    Raise IndexError or ValueError if the records are malformed.
    """
    regular = True
    position = index = 0
    for below, width in _DELTA_WIDTHS:
        end = min(count, below)
        if index < end:
            location = first_location + index * _NEXT_OFFSET
            run, position = _note_run(data, position, end - index, width, location, latest)
            others = range(index + run, end)
            position, without_tombstones = _note_each(data, position, others, width, first_location, latest)
            regular = regular and without_tombstones
            index = end
    if position != len(data):
        raise ValueError(f"the records end at byte {position} of {len(data)}")
    return regular


def _note_run(
    data: bytes, position: int, max_count: int, width: int, location: int, latest: dict[bytes, int]
) -> tuple[int, int]:
    """Record the keys of a run of equal layout at `position`; return the number of records and their end."""
    shape = shape_at(data, position, width, MAX_OWN_KEY)
    if shape is None:
        return 0, position
    count = note_run(data, position, max_count, shape, location + position, _NEXT_OFFSET, latest)
    return count, position + count * shape.size


def _note_each(
    data: bytes, position: int, part: range, width: int, first_location: int, latest: dict[bytes, int]
) -> tuple[int, bool]:
    """Record the keys of records one by one; `width` is the encoded size of their offset deltas.

    Return the end position, and True if no record is a tombstone.
    """
    regular = True
    base_location = first_location + part.start * _NEXT_OFFSET
    for index in part:
        location = base_location + position
        byte = data[position]
        if byte < 128:
            position += 2
            end = position - 1 + (byte >> 1)
        else:
            second = data[position + 1]
            if second < 128:
                position += 3
                end = position - 1 + (byte - 128 >> 1) + (second << 6)
            else:
                length, position = read_varint(data, position)
                end = position + length
                position += 1
        while data[position] > 127:  # the timestamp
            position += 1
        position += width + 1
        byte = data[position]
        position += 1
        if NULL < byte <= _MAX_PLAIN_LENGTH:
            key_end = position + (byte >> 1)
            latest[data[position:key_end]] = location
            if data[key_end] == NULL:
                regular = False
        else:
            key_end = position
            if byte != NULL:
                length, position = read_varint(data, position - 1)
                key_end = position + length
                latest[stand_in(data[position:key_end])] = location
                regular = regular and data[key_end] != NULL
        if not position <= key_end < end:
            raise ValueError(f"record {index} is malformed")
        position = end
        base_location += _NEXT_OFFSET
    return position, regular


def note_keys_with_gaps(data: bytes, count: int, first_location: int, latest: dict[bytes, int]) -> bool:
    """Like `note_keys`, for a batch that was compacted before: offsets come from the records' deltas."""
    position = 0
    for index in range(count):
        start = position
        length, position = read_varint(data, position)
        end = position + length
        _, position = read_varint(data, position + 1)
        delta, position = read_varint(data, position)
        length, position = read_varint(data, position)
        key_end = position + max(length, 0)
        if not position <= key_end < end:
            raise ValueError(f"record {index} is malformed")
        if length >= 0:
            latest[stand_in(data[position:key_end])] = first_location + delta * _NEXT_OFFSET + start
        position = end
    if position != len(data):
        raise ValueError(f"the records end at byte {position} of {len(data)}")
    return False
