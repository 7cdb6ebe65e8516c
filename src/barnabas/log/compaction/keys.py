"""The first pass: the last place of every key in the dirty part of a log.

This and `choosing.py` are the inner loops of compaction. They go through the bytes of a batch themselves and take out
keys and record boundaries only: a quarter of what it costs to build a `Record` of each. A *place* is one number for
the offset of a record and where it stands in the data of its batch: the second pass finds the records that stay
without looking at those that go.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from hashlib import blake2b

from barnabas.log.compaction.alike import note_run, shape_at
from barnabas.records.varints import read_varint

MAX_OWN_KEY = 32
"""A longer key is stood for by a digest. That is one byte longer, so that no key equals another's digest."""
BYTES_PER_KEY = 200
"""Of a dictionary entry with its key and place, measured while the dictionary grows (tests/log/compaction)."""

POSITION_BITS = 27  # enough for the data of a batch, which are at most 100 MiB (records/compression.py)
POSITION_MASK = (1 << POSITION_BITS) - 1
OFFSET_RANGE = 1 << 63 - POSITION_BITS
"""A place fits into 63 bits: so many offsets, counted from the first dirty one, can be compacted in one go."""
_NEXT_OFFSET = 1 << POSITION_BITS

NULL = 1  # the length -1, as one byte
_MAX_PLAIN_LENGTH = 2 * MAX_OWN_KEY  # as it is written


def stand_in(key: bytes) -> bytes:
    """What a key is known by."""
    if len(key) <= MAX_OWN_KEY:
        return key
    return blake2b(key, digest_size=MAX_OWN_KEY + 1).digest()


class KeyMap:
    """key -> its last place, in bounded memory. Offsets are counted from `origin`."""

    def __init__(self, memory_bytes: int, origin: int = 0) -> None:
        self.limit = max(memory_bytes // BYTES_PER_KEY, 1)
        self.origin = origin
        self.latest: dict[bytes, int] = {}
        self.irregular: set[int] = set()
        """Base offsets of the noted batches that `survivors_in` does not speak for."""
        self._survivors = array("q")

    def has_room_for(self, records: int, last_offset: int) -> bool:
        """Always for the first batch, or there would be no progress."""
        if not self.latest:
            return True
        return len(self.latest) + records <= self.limit and last_offset - self.origin < OFFSET_RANGE

    def note(self, data: bytes, count: int, base_offset: int, last_offset: int) -> None:
        """Take note of the keys of a batch."""
        first_place = (base_offset - self.origin) << POSITION_BITS
        has_gaps = last_offset - base_offset + 1 != count
        note = note_keys_with_gaps if has_gaps else note_keys
        if not note(data, count, first_place, self.latest) or has_gaps:
            self.irregular.add(base_offset)

    def finish(self) -> None:
        """All keys are known: put in order which places are the last ones."""
        self._survivors = array("q", sorted(self.latest.values()))

    def survivors_in(self, first_offset: int, last_offset: int) -> list[int]:
        """Where the records of this range stand in the data of their batch that are the last ones of their keys."""
        survivors = self._survivors
        start = bisect_left(survivors, (first_offset - self.origin) << POSITION_BITS)
        end = bisect_left(survivors, (last_offset + 1 - self.origin) << POSITION_BITS, start)
        return [place & POSITION_MASK for place in survivors[start:end]]

    @property
    def used(self) -> float:
        return len(self.latest) / self.limit


_DELTA_WIDTHS = ((1 << 6, 1), (1 << 13, 2), (1 << 20, 3), (1 << 27, 4), (1 << 34, 5))
"""(below, bytes): how long an offset delta is when it is written."""


def note_keys(data: bytes, count: int, first_place: int, latest: dict[bytes, int]) -> bool:
    """Note the place of every key in a batch whose offsets have no gaps; whether no record is a tombstone.

    IndexError or ValueError when the records are malformed.
    """
    regular = True
    position = index = 0
    for below, width in _DELTA_WIDTHS:
        end = min(count, below)
        if index < end:
            place = first_place + index * _NEXT_OFFSET
            alike, position = _note_alike(data, position, end - index, width, place, latest)
            others = range(index + alike, end)
            position, without_tombstones = _note_each(data, position, others, width, first_place, latest)
            regular = regular and without_tombstones
            index = end
    if position != len(data):
        raise ValueError(f"the records take {position} bytes of {len(data)}")
    return regular


def _note_alike(
    data: bytes, position: int, most: int, width: int, place: int, latest: dict[bytes, int]
) -> tuple[int, int]:
    """Those at the start of a part of a batch that look alike: how many there are, and where they end."""
    shape = shape_at(data, position, width, MAX_OWN_KEY)
    if shape is None:
        return 0, position
    count = note_run(data, position, most, shape, place + position, _NEXT_OFFSET, latest)
    return count, position + count * shape.size


def _note_each(
    data: bytes, position: int, part: range, width: int, first_place: int, latest: dict[bytes, int]
) -> tuple[int, bool]:
    """One by one; `width` is that of their offset deltas. Where they end, and whether no record is a tombstone."""
    regular = True
    place = first_place + part.start * _NEXT_OFFSET
    for index in part:
        here = place + position
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
            latest[data[position:key_end]] = here
            if data[key_end] == NULL:
                regular = False
        else:
            key_end = position
            if byte != NULL:
                length, position = read_varint(data, position - 1)
                key_end = position + length
                latest[stand_in(data[position:key_end])] = here
                regular = regular and data[key_end] != NULL
        if not position <= key_end < end:
            raise ValueError(f"record {index} is malformed")
        position = end
        place += _NEXT_OFFSET
    return position, regular


def note_keys_with_gaps(data: bytes, count: int, first_place: int, latest: dict[bytes, int]) -> bool:
    """As `note_keys`, for a batch that was compacted before: each record says how far it is from the first."""
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
            latest[stand_in(data[position:key_end])] = first_place + delta * _NEXT_OFFSET + start
        position = end
    if position != len(data):
        raise ValueError(f"the records take {position} bytes of {len(data)}")
    return False
