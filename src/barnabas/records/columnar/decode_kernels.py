"""Compiled loops that decode records, for bytes that any client may have written.

Every read is bounds-checked, and the size of every output array is bounded by the input: a record takes at least
seven bytes, a header two. A position becomes BAD on the first error and stays BAD; the caller then asks the plain
reader of `records/record.py` for the reason. Both accept the same bytes, except for numbers of more than 64 bits,
which are rejected here.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

njit: Any = numba.njit
types: Any = numba.types

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
OUT_BYTES = types.Array(types.uint8, 1, "C")
OUT_INTS = types.Array(types.int32, 1, "C")
OUT_LONGS = types.Array(types.int64, 1, "C")
PLAN = types.Array(types.int64, 2, "C", readonly=True)

# The columns of a plan: one row per batch.
START, END, COUNT, BASE_OFFSET, BASE_TIMESTAMP, APPEND_TIME, IS_APPEND_TIME = range(7)
PLAN_WIDTH = 7

# Bits of `columns`.
WANT_OFFSET, WANT_TIMESTAMP, WANT_KEY, WANT_VALUE, WANT_HEADERS, WANT_TYPE = 1, 2, 4, 8, 16, 32

# Slots of `state` in a column of byte strings.
WRITTEN, NULLS = 0, 1

MIN_RECORD = 7  # length, attributes, two deltas, two lengths, the header count
MIN_HEADER = 2
BAD = -1

_MAX = np.int64((1 << 63) - 1)
_SMALLEST = np.int64(-(1 << 63))
_MAX_MILLISECONDS = np.int64(((1 << 63) - 1) // 1000)

# Without numba's runtime (nothing here allocates), and inlined before compilation: otherwise every helper counts
# the references to its arrays, which took five times as long as the work itself. Rarely called functions are not
# inlined.
inlined = njit(cache=True, nogil=True, _nrt=False, inline="always")
called = njit(cache=True, nogil=True, _nrt=False)

# offsets, data, valid (one bit per row), state: a column of byte strings in Arrow's layout
_STRINGS = (OUT_INTS, OUT_BYTES, OUT_BYTES, OUT_LONGS)


@called
def read_long_varint(data, position, end):  # type: ignore[no-untyped-def]
    """`read_varint`, for a number of several bytes."""
    folded = np.uint64(data[np.uint64(position)] & 0x7F)
    for index in range(1, 10):
        if position + index >= end:
            return np.int64(0), BAD
        byte = data[np.uint64(position + index)]
        if index == 9 and byte > 1:
            return np.int64(0), BAD
        folded |= np.uint64(byte & 0x7F) << np.uint64(7 * index)
        if byte < 128:
            half = np.int64(folded >> np.uint64(1))
            return half ^ -np.int64(folded & np.uint64(1)), position + index + 1
    return np.int64(0), BAD


@inlined
def read_varint(data, position, end):  # type: ignore[no-untyped-def]
    """(value, position after it); the position is BAD if the data are truncated or the number has more than 64
    bits."""
    if position < 0 or position >= end:
        return np.int64(0), BAD
    byte = data[np.uint64(position)]
    if byte < 128:
        small = np.int64(byte)
        return (small >> 1) ^ -(small & 1), position + 1
    if position + 1 < end:
        second = data[np.uint64(position + 1)]
        if second < 128:
            small = np.int64(byte & 0x7F) | np.int64(second) << 7
            return (small >> 1) ^ -(small & 1), position + 2
    return read_long_varint(data, position, end)


@inlined
def overflows(base, delta):  # type: ignore[no-untyped-def]
    """Return True if base + delta does not fit into 64 bits."""
    if delta >= 0:
        return base > _MAX - delta
    return base < _SMALLEST - delta


@inlined
def microseconds(milliseconds):  # type: ignore[no-untyped-def]
    """Convert, clamping times that do not fit into 64 bits of microseconds."""
    if milliseconds > _MAX_MILLISECONDS:
        return _MAX
    if milliseconds < -_MAX_MILLISECONDS:
        return _SMALLEST
    return milliseconds * 1000


@inlined
def take_string(source, position, end, keep, row, offsets, data, valid, state):  # type: ignore[no-untyped-def]
    """Copy one nullable field into its column, or skip it; the position after it, or BAD."""
    length, position = read_varint(source, position, end)
    if position < 0 or length > end - position:
        return BAD
    if length < 0:
        if keep:
            valid[row >> 3] &= ~np.uint8(1 << (row & 7))
            state[NULLS] += 1
            offsets[np.uint64(row + 1)] = np.int32(state[WRITTEN])
        return position
    if keep:
        written = state[WRITTEN]
        # Unsigned: numba then omits the check for negative indexes, and copies words instead of bytes.
        target, start = np.uint64(written), np.uint64(position)
        for index in range(np.uint64(length)):
            data[target + index] = source[start + index]
        state[WRITTEN] = written + length
        offsets[np.uint64(row + 1)] = np.int32(written + length)
    return position + length


@called
def take_headers(  # type: ignore[no-untyped-def]
    source, position, end, keep, first, key_column, value_column
):
    """Append the headers of a record to their columns, or only check them; (count, the position after them)."""
    key_offsets, key_data, key_valid, key_state = key_column
    value_offsets, value_data, value_valid, value_state = value_column
    count, position = read_varint(source, position, end)
    if position < 0 or count < 0 or count > end - position:
        return np.int64(0), BAD
    for row in range(first, first + count):
        if position < end and source[position] & 1:
            return np.int64(0), BAD  # a length below zero: a header has no key
        position = take_string(source, position, end, keep, row, key_offsets, key_data, key_valid, key_state)
        position = take_string(
            source, position, end, keep, row, value_offsets, value_data, value_valid, value_state
        )
        if position < 0:
            return np.int64(0), BAD
    return count, position


@inlined
def close_list(row, count, lists, valid, state):  # type: ignore[no-untyped-def]
    """End the list of a record's headers. An empty list is null, as in Spark's connector."""
    if count == 0:
        valid[row >> 3] &= ~np.uint8(1 << (row & 7))
        state[NULLS] += 1
    state[WRITTEN] += count
    lists[row + 1] = np.int32(state[WRITTEN])


@inlined
def record_end(source, position, end):  # type: ignore[no-untyped-def]
    """(position after the attributes, end of the record)"""
    length, position = read_varint(source, position, end)
    if position < 0 or length < 1 or length > end - position:
        return BAD, end
    return position + 1, position + length


@inlined
def record_header(source, position, end, batch):  # type: ignore[no-untyped-def]
    """(offset, timestamp, position after both deltas)"""
    time_delta, position = read_varint(source, position, end)
    if position < 0:
        return np.int64(0), np.int64(0), BAD
    offset_delta, position = read_varint(source, position, end)
    if position < 0 or overflows(batch[BASE_OFFSET], offset_delta):
        return np.int64(0), np.int64(0), BAD
    timestamp = batch[APPEND_TIME]
    if batch[IS_APPEND_TIME] == 0:
        if overflows(batch[BASE_TIMESTAMP], time_delta):
            return np.int64(0), np.int64(0), BAD
        timestamp = batch[BASE_TIMESTAMP] + time_delta
    return batch[BASE_OFFSET] + offset_delta, timestamp, position


@inlined
def take_times(columns, row, timestamp, kind, timestamps, kinds):  # type: ignore[no-untyped-def]
    if columns & WANT_TIMESTAMP:
        timestamps[np.uint64(row)] = microseconds(timestamp)
    if columns & WANT_TYPE:
        kinds[np.uint64(row)] = np.int32(kind)


@njit(
    types.UniTuple(types.int64, 2)(
        BYTES, PLAN, types.int64, types.int64, types.int64,
        OUT_LONGS, OUT_LONGS, OUT_INTS,
        types.Tuple(_STRINGS), types.Tuple(_STRINGS),
        OUT_INTS, OUT_BYTES, OUT_LONGS, types.Tuple(_STRINGS), types.Tuple(_STRINGS),
    ),
    cache=True,
    nogil=True,
    _nrt=False,
)  # fmt: skip
def decode_batches(  # type: ignore[no-untyped-def]
    source, plan, columns, first, until,
    offsets, timestamps, timestamp_types,
    keys, values,
    lists, lists_valid, header_state, header_keys, header_values,
):  # fmt: skip
    """The records with first <= offset < until, as columns: (rows, BAD), or (rows so far, index of the invalid
    batch)."""
    key_offsets, key_data, key_valid, key_state = keys
    value_offsets, value_data, value_valid, value_state = values
    row = 0
    for index in range(plan.shape[0]):
        batch = plan[index]
        position, batch_end = batch[START], batch[END]
        for _ in range(batch[COUNT]):
            position, end = record_end(source, position, batch_end)
            offset, timestamp, position = record_header(source, position, end, batch)
            keep = first <= offset < until
            position = take_string(
                source, position, end, keep and columns & WANT_KEY != 0, row,
                key_offsets, key_data, key_valid, key_state,
            )  # fmt: skip
            position = take_string(
                source, position, end, keep and columns & WANT_VALUE != 0, row,
                value_offsets, value_data, value_valid, value_state,
            )  # fmt: skip
            count = np.int64(0)
            if 0 <= position < end and source[np.uint64(position)] == 0:  # the usual case
                position += 1
            else:
                count, position = take_headers(
                    source, position, end, keep and columns & WANT_HEADERS != 0, header_state[WRITTEN],
                    header_keys, header_values,
                )  # fmt: skip
            if position != end:
                return row, index
            if keep:
                take_times(columns, row, timestamp, batch[IS_APPEND_TIME], timestamps, timestamp_types)
                if columns & WANT_OFFSET:
                    offsets[np.uint64(row)] = offset
                if columns & WANT_HEADERS:
                    close_list(row, count, lists, lists_valid, header_state)
                row += 1
        if position != batch_end:
            return row, index
    return row, BAD
