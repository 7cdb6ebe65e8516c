"""Second pass: select the retained records of a batch, as slices of its bytes."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.log.compaction.keys import MAX_OWN_KEY, NULL, POSITION_BITS, KeyMap, stand_in
from barnabas.records import read_varint

SMALLEST = -(1 << 63)


class RetainedRecords(NamedTuple):
    """The retained records of a batch, in their original encoding."""

    runs: list[bytes]  # slices of consecutive retained records
    record_count: int
    largest_timestamp: int  # relative to the base timestamp of the batch
    has_tombstones: bool = False


def keep_at(data: bytes, positions: list[int]) -> RetainedRecords:
    """Retain the records at these positions, which ascend."""
    runs = []
    largest = SMALLEST
    run_start = run_end = positions[0]
    for start in positions:
        byte = data[start]
        second = data[start + 1]
        if byte < 128:
            position = start + 1
            end = position + (byte >> 1)
        elif second < 128:
            position = start + 2
            end = position + (byte - 128 >> 1) + (second << 6)
        else:
            length, position = read_varint(data, start)
            end = position + length
        if start != run_end:
            runs.append(data[run_start:run_end])
            run_start = start
        run_end = end
        byte = data[position + 1]
        timestamp = (byte >> 1) ^ -(byte & 1) if byte < 128 else read_varint(data, position + 1)[0]
        if timestamp > largest:
            largest = timestamp
    runs.append(data[run_start:run_end])
    return RetainedRecords(runs, len(positions), largest)


class RetentionCriteria(NamedTuple):
    """Criteria for retaining a record."""

    keys: KeyMap
    cleaned_upto: int  # all records from here on are retained
    keeps_tombstones: bool


def keep_by_key(data: bytes, count: int, base_offset: int, choice: RetentionCriteria) -> RetainedRecords:  # noqa: C901 - one loop
    """Retain the records without a later record of the same key, except for expired tombstones.

    Raise IndexError or ValueError if the records are malformed.
    """
    keys, cleaned_upto, keeps_tombstones = choice
    find, origin = keys.latest.get, keys.origin
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
                or find(key if len(key) <= MAX_OWN_KEY else stand_in(key), SMALLEST)
                >= (offset + 1 - origin) << POSITION_BITS
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
        raise ValueError(f"the records end at byte {position} of {len(data)}")
    if run_start != position:
        runs.append(data[run_start:])
    return RetainedRecords(runs, kept, largest, has_tombstones)
