"""The first pass: the last offset of every key in the dirty part of a log.

This and `choosing.py` are the inner loops of compaction. They go through the bytes of a batch themselves and take out
keys and record boundaries only: a third of what it costs to build a `Record` of each.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from hashlib import blake2b

from barnabas.records.varints import read_varint

LONGEST_OWN_KEY = 32
"""A longer key is stood for by a digest. That is one byte longer, so that no key equals another's digest."""
BYTES_PER_KEY = 200
"""Of a dictionary entry with its key and offset, measured while the dictionary grows (tests/log/compaction)."""

NULL = 1  # the length -1, as one byte


def stand_in(key: bytes) -> bytes:
    """What a key is known by."""
    if len(key) <= LONGEST_OWN_KEY:
        return key
    return blake2b(key, digest_size=LONGEST_OWN_KEY + 1).digest()


class KeyMap:
    """key -> its last offset, in bounded memory."""

    def __init__(self, memory_bytes: int) -> None:
        self.limit = max(memory_bytes // BYTES_PER_KEY, 1)
        self.latest: dict[bytes, int] = {}
        self.irregular: set[int] = set()
        """Base offsets of the noted batches that `survivors_in` does not speak for."""
        self._survivors = array("q")

    def has_room_for(self, records: int) -> bool:
        """Always for the first batch, or there would be no progress."""
        return not self.latest or len(self.latest) + records <= self.limit

    def note(self, data: bytes, count: int, base_offset: int) -> None:
        """Take note of the keys of a batch."""
        if not note_keys(data, count, base_offset, self.latest):
            self.irregular.add(base_offset)

    def finish(self) -> None:
        """All keys are known: note which offsets are the last ones."""
        self._survivors = array("q", sorted(self.latest.values()))

    def survivors_in(self, first_offset: int, last_offset: int) -> list[int]:
        """Places, counted from the first, of the records in this range that are the last ones of their keys."""
        survivors = self._survivors
        start = bisect_left(survivors, first_offset)
        end = bisect_left(survivors, last_offset + 1, start)
        return [offset - first_offset for offset in survivors[start:end]]

    @property
    def used(self) -> float:
        return len(self.latest) / self.limit


def note_keys(data: bytes, count: int, base_offset: int, latest: dict[bytes, int]) -> bool:  # noqa: C901 - one loop
    """Note the offset of every key in the records of a batch; IndexError or ValueError when they are malformed.

    True if the batch is regular: offsets without gaps, and no tombstones.
    """
    regular = True
    position = 0
    for index in range(count):
        byte = data[position]
        second = data[position + 1]
        if byte < 128:
            position += 1
            end = position + (byte >> 1)
        elif second < 128:
            position += 2
            end = position + ((byte & 127 | second << 7) >> 1)
        else:
            length, position = read_varint(data, position)
            end = position + length
        position += 1  # attributes
        while data[position] > 127:  # timestamp
            position += 1
        byte = data[position + 1]
        second = data[position + 2]
        if byte < 128:
            delta = byte >> 1
            position += 2
        elif second < 128:
            delta = (byte & 127 | second << 7) >> 1
            position += 3
        else:
            delta, position = read_varint(data, position + 1)
        if delta != index:
            regular = False
        byte = data[position]
        if byte == NULL:
            position = end
            continue
        position += 1
        if byte < 128:
            key_end = position + (byte >> 1)
        else:
            length, position = read_varint(data, position - 1)
            key_end = position + length
        if not position <= key_end < end:
            raise ValueError(f"record {index} is malformed")
        key = data[position:key_end]
        latest[key if len(key) <= LONGEST_OWN_KEY else stand_in(key)] = base_offset + delta
        if data[key_end] == NULL:
            regular = False
        position = end
    if position != len(data):
        raise ValueError(f"the records take {position} bytes of {len(data)}")
    return regular
