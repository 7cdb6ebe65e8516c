"""The second pass: which records of a batch stay, as slices of its bytes."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.log.compaction.keys import LONGEST_OWN_KEY, NULL, stand_in
from barnabas.records.varints import read_varint

NOTHING_KEPT = -(1 << 63)


class Kept(NamedTuple):
    """The records of a batch that stay, as they stand there."""

    records: list[bytes]
    largest_timestamp: int  # relative to the base timestamp of the batch
    has_tombstones: bool = False


def keep_by_place(data: bytes, places: list[int]) -> Kept:
    """The records at these places, in ascending order. Nothing but record boundaries is looked at to find them."""
    kept = []
    largest = NOTHING_KEPT
    position = index = 0
    for place in places:
        while True:
            start = position
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
            index += 1
            if index > place:
                break
            position = end
        kept.append(data[start:end])
        timestamp, _ = read_varint(data, position + 1)
        largest = max(largest, timestamp)
        position = end
    return Kept(kept, largest)


class Choice(NamedTuple):
    """What decides whether a record stays."""

    latest: dict[bytes, int]
    cleaned_upto: int  # at and above, everything stays
    keeps_tombstones: bool


def keep_by_key(data: bytes, count: int, base_offset: int, choice: Choice) -> Kept:
    """The records whose key is not known to come again later, without tombstones that are no longer wanted.

    IndexError or ValueError when the records are malformed.
    """
    latest, cleaned_upto, keeps_tombstones = choice
    kept = []
    largest = NOTHING_KEPT
    has_tombstones = False
    position = 0
    for index in range(count):
        start = position
        length, position = read_varint(data, position)
        end = position + length
        timestamp, position = read_varint(data, position + 1)
        delta, position = read_varint(data, position)
        length, position = read_varint(data, position)
        key_end = position + max(length, 0)
        if not position <= key_end < end <= len(data):
            raise ValueError(f"record {index} is malformed")
        is_tombstone = data[key_end] == NULL
        if base_offset + delta < cleaned_upto:
            if length < 0 or (is_tombstone and not keeps_tombstones):
                position = end
                continue
            key = data[position:key_end]
            if latest.get(key if length <= LONGEST_OWN_KEY else stand_in(key), 0) > base_offset + delta:
                position = end
                continue
        has_tombstones = has_tombstones or is_tombstone
        kept.append(data[start:end])
        if timestamp > largest:
            largest = timestamp
        position = end
    if position != len(data):
        raise ValueError(f"the records take {position} bytes of {len(data)}")
    return Kept(kept, largest, has_tombstones)
