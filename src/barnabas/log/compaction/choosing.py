"""The second pass: which records of a batch stay, as slices of its bytes."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.log.compaction.keys import LONGEST_OWN_KEY, NULL, stand_in
from barnabas.records.varints import read_varint

SMALLEST = -(1 << 63)


class Kept(NamedTuple):
    """The records of a batch that stay, as they stand there."""

    runs: list[bytes]  # records without one in between that goes
    record_count: int
    largest_timestamp: int  # relative to the base timestamp of the batch
    has_tombstones: bool = False


def keep_by_place(data: bytes, places: list[int]) -> Kept:
    """The records at these places, in ascending order. Only record boundaries are looked at to find them."""
    runs = []
    largest = SMALLEST
    position = index = run_start = run_end = 0
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
        if start != run_end:
            if run_end:
                runs.append(data[run_start:run_end])
            run_start = start
        run_end = end
        byte = data[position + 1]
        timestamp = (byte >> 1) ^ -(byte & 1) if byte < 128 else read_varint(data, position + 1)[0]
        if timestamp > largest:
            largest = timestamp
        position = end
    runs.append(data[run_start:run_end])
    return Kept(runs, len(places), largest)


class Choice(NamedTuple):
    """What decides whether a record stays."""

    latest: dict[bytes, int]
    cleaned_upto: int  # at and above, everything stays
    keeps_tombstones: bool


def keep_by_key(data: bytes, count: int, base_offset: int, choice: Choice) -> Kept:  # noqa: C901 - one loop
    """The records whose key is not known to come again later, without tombstones that are no longer wanted.

    IndexError or ValueError when the records are malformed.
    """
    latest, cleaned_upto, keeps_tombstones = choice
    find = latest.get
    runs = []
    kept = 0
    largest = SMALLEST
    has_tombstones = False
    position = run_start = 0
    for index in range(count):
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
        byte = data[position + 1]  # after the attributes
        if byte < 128:
            timestamp = (byte >> 1) ^ -(byte & 1)
            position += 2
        else:
            timestamp, position = read_varint(data, position + 1)
        byte = data[position]
        if byte < 128:
            offset = base_offset + (byte >> 1)
            position += 1
        else:
            delta, position = read_varint(data, position)
            offset = base_offset + delta
        byte = data[position]
        if byte == NULL:
            key_end = position = position + 1
        elif byte < 128:
            position += 1
            key_end = position + (byte >> 1)
        else:
            length, position = read_varint(data, position)
            key_end = position + length
        if not position <= key_end < end:
            raise ValueError(f"record {index} is malformed")
        is_tombstone = data[key_end] == NULL
        if offset < cleaned_upto:
            key = data[position:key_end]
            if (
                byte == NULL
                or (is_tombstone and not keeps_tombstones)
                or find(key if len(key) <= LONGEST_OWN_KEY else stand_in(key), 0) > offset
            ):
                if start != run_start:
                    runs.append(data[run_start:start])
                position = run_start = end
                continue
        kept += 1
        has_tombstones = has_tombstones or is_tombstone
        if timestamp > largest:
            largest = timestamp
        position = end
    if position != len(data):
        raise ValueError(f"the records take {position} bytes of {len(data)}")
    if run_start != position:
        runs.append(data[run_start:])
    return Kept(runs, kept, largest, has_tombstones)
