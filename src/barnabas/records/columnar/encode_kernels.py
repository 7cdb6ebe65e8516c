"""Compiled loops that encode columns of bytes into records: partitioning, grouping, encoding.

A column of byte strings has Arrow's layout: `offsets` (one more than rows), `data`, and `valid`, one byte per row;
an empty `valid` means that no row is null. All inputs are read-only arrays and every function called from Python
has one explicit signature, so that a worker loads compiled code from numba's cache and never compiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

untyped_njit: Any = njit  # the stubs lack `_nrt`
Integer = Any  # numba's numbers are neither Python's int nor one of numpy's types

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
INTS = types.Array(types.int32, 1, "C", readonly=True)
LONGS = types.Array(types.int64, 1, "C", readonly=True)
OUT_BYTES = types.Array(types.uint8, 1, "C")
OUT_INTS = types.Array(types.int32, 1, "C")
OUT_LONGS = types.Array(types.int64, 1, "C")
PAIR = types.UniTuple(types.int64, 2)  # type: ignore[no-untyped-call]
TRIPLE = types.UniTuple(types.int64, 3)  # type: ignore[no-untyped-call]

# -- which partition ------------------------------------------------------------------------------------


@njit(types.uint32(BYTES, types.int64, types.int64), cache=True, nogil=True)
def murmur2(data: np.ndarray, start: Integer, end: Integer) -> Integer:
    """`client.producing.partitioner.murmur2`, compiled."""
    multiplier = np.uint32(0x5BD1E995)
    length = end - start
    state = np.uint32(0x9747B28C) ^ np.uint32(length)
    words_end = end - length % 4
    for position in range(start, words_end, 4):
        word = np.uint32(data[position])
        word |= np.uint32(data[position + 1]) << np.uint32(8)
        word |= np.uint32(data[position + 2]) << np.uint32(16)
        word |= np.uint32(data[position + 3]) << np.uint32(24)
        word = np.uint32(word * multiplier)
        word ^= word >> np.uint32(24)
        word = np.uint32(word * multiplier)
        state = np.uint32(state * multiplier) ^ word
    if words_end < end:
        tail = np.uint32(0)
        for position in range(words_end, end):
            tail |= np.uint32(data[position]) << np.uint32(8 * (position - words_end))
        state = np.uint32((state ^ tail) * multiplier)
    state ^= state >> np.uint32(13)
    state = np.uint32(state * multiplier)
    return state ^ (state >> np.uint32(15))


@njit(
    PAIR(OUT_INTS, INTS, BYTES, BYTES, INTS, types.int64, types.int64, types.int64, types.int64),
    cache=True,
    nogil=True,
)
def assign_partitions(
    assigned: np.ndarray,
    key_offsets: np.ndarray,
    key_data: np.ndarray,
    key_valid: np.ndarray,
    value_offsets: np.ndarray,
    count: Integer,
    sticky: Integer,
    sticky_filled: Integer,
    sticky_bytes: Integer,
) -> tuple[Integer, Integer]:
    """Assign the rows without a partition (-1): by key, or to the sticky partition.

    A partition is sticky until it has received `sticky_bytes` of values without a key (KIP-480). Returns the
    current sticky partition and its bytes so far.
    """
    has_keys = key_offsets.size > 0
    for row in range(assigned.size):
        if assigned[row] >= 0:
            continue
        if has_keys and (key_valid.size == 0 or key_valid[row]):
            hashed = murmur2(key_data, key_offsets[row], key_offsets[row + 1])
            assigned[row] = np.int32(np.int64(hashed & np.uint32(0x7FFFFFFF)) % count)
        else:
            if sticky_filled >= sticky_bytes:
                sticky, sticky_filled = (sticky + 1) % count, 0
            assigned[row] = np.int32(sticky)
            sticky_filled += value_offsets[row + 1] - value_offsets[row] + 8
    return sticky, sticky_filled


@njit(types.void(INTS, OUT_LONGS, OUT_LONGS), cache=True, nogil=True)
def group_rows(assigned: np.ndarray, starts: np.ndarray, order: np.ndarray) -> None:
    """Write the rows of partition p, in order, to `order[starts[p]:starts[p + 1]]`; `starts` must be zeroed."""
    for row in range(assigned.size):
        starts[assigned[row] + 1] += 1
    for partition in range(1, starts.size):
        starts[partition] += starts[partition - 1]
    free = starts.copy()
    for row in range(assigned.size):
        partition = assigned[row]
        order[free[partition]] = row
        free[partition] += 1


# -- records ----------------------------------------------------------------------------------------------

# Inlined before compilation and without numba's runtime; `decode_kernels` says why. Positions are unsigned: numba
# then omits the check for negative indexes, and copies words instead of bytes.
inlined = untyped_njit(cache=True, nogil=True, _nrt=False, inline="always")


@inlined
def zigzag(number):  # type: ignore[no-untyped-def]
    return np.uint64((number << 1) ^ (number >> 63))


@inlined
def varint_size(number):  # type: ignore[no-untyped-def]
    rest = zigzag(number)
    size = 1
    while rest >= np.uint64(0x80):
        rest >>= np.uint64(7)
        size += 1
    return size


@inlined
def put_varint(out, position, number):  # type: ignore[no-untyped-def]
    rest = zigzag(number)
    while rest >= np.uint64(0x80):
        out[np.uint64(position)] = np.uint8(rest & np.uint64(0x7F)) | np.uint8(0x80)
        rest >>= np.uint64(7)
        position += 1
    out[np.uint64(position)] = np.uint8(rest)
    return position + 1


@inlined
def length_of(offsets, valid, row):  # type: ignore[no-untyped-def]
    """-1 for null and for an absent column."""
    if offsets.size == 0 or (valid.size > 0 and not valid[np.uint64(row)]):
        return np.int64(-1)
    return np.int64(offsets[np.uint64(row + 1)]) - np.int64(offsets[np.uint64(row)])


@inlined
def field_size(length):  # type: ignore[no-untyped-def]
    return varint_size(length) + max(length, 0)


@inlined
def put_field(out, position, data, start, length):  # type: ignore[no-untyped-def]
    position = put_varint(out, position, length)
    if length <= 0:
        return position
    target, source = np.uint64(position), np.uint64(start)
    for index in range(np.uint64(length)):
        out[target + index] = data[source + index]
    return position + length


@untyped_njit(
    TRIPLE(
        OUT_BYTES, types.int64, LONGS, types.int64, types.int64, LONGS,
        INTS, BYTES, BYTES, INTS, BYTES, BYTES, LONGS, INTS, BYTES, INTS, BYTES, BYTES,
    ),
    cache=True,
    nogil=True,
    _nrt=False,
)  # fmt: skip
def encode_records(  # type: ignore[no-untyped-def]
    out, position, rows, first, last, timestamps,
    key_offsets, key_data, key_valid, value_offsets, value_data, value_valid,
    header_starts, name_offsets, name_data, header_offsets, header_data, header_valid,
):  # fmt: skip
    """Write the records of `rows[first:last]` into `out` from `position` on, as many as fit.

    Deltas are relative to the first of them. Empty `timestamps`: all are equal. Returns the index after the last
    row written, the position after it, and the largest timestamp delta.
    """
    latest = np.int64(0)
    for index in range(first, last):
        row = rows[np.uint64(index)]
        delta = np.int64(0)
        if timestamps.size > 0:
            delta = timestamps[np.uint64(row)] - timestamps[np.uint64(rows[np.uint64(first)])]
        key_length = length_of(key_offsets, key_valid, row)
        value_length = length_of(value_offsets, value_valid, row)
        header_first, header_last = np.int64(0), np.int64(0)
        if header_starts.size > 0:
            header_first, header_last = header_starts[row], header_starts[row + 1]
        size = 1 + varint_size(delta) + varint_size(index - first) + field_size(key_length)
        size += field_size(value_length) + varint_size(header_last - header_first)
        for header in range(header_first, header_last):
            size += field_size(np.int64(name_offsets[header + 1] - name_offsets[header]))
            size += field_size(length_of(header_offsets, header_valid, header))
        if position + varint_size(size) + size > out.size:
            return index, position, latest
        position = put_varint(out, position, size)
        out[np.uint64(position)] = 0  # attributes
        position = put_varint(out, position + 1, delta)
        position = put_varint(out, position, index - first)
        key_start = np.int64(key_offsets[row]) if key_length > 0 else np.int64(0)
        position = put_field(out, position, key_data, key_start, key_length)
        value_start = np.int64(value_offsets[row]) if value_length > 0 else np.int64(0)
        position = put_field(out, position, value_data, value_start, value_length)
        position = put_varint(out, position, header_last - header_first)
        for header in range(header_first, header_last):
            name_start = np.int64(name_offsets[header])
            name_length = np.int64(name_offsets[header + 1]) - name_start
            position = put_field(out, position, name_data, name_start, name_length)
            content_length = length_of(header_offsets, header_valid, header)
            position = put_field(out, position, header_data, np.int64(header_offsets[header]), content_length)
        latest = max(latest, delta)
    return last, position, latest
