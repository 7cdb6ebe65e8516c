"""The compiled scan of `records/walking.py`.

The plain reader reports the reason for a record that is not accepted here.
"""

from __future__ import annotations

import numpy as np

from barnabas.records.columnar.decode_kernels import (
    BAD,
    BYTES,
    MIN_HEADER,
    called,
    njit,
    overflows,
    read_varint,
    record_end,
    types,
)
from barnabas.records.walking import RecordRules, ScanState

__all__ = ["walk_compiled"]

_NO_TIMESTAMP = np.int64(-1)


@called
def skip_headers(data, position, end, limit):  # type: ignore[no-untyped-def]
    """The position after the headers of a record, or BAD."""
    count, position = read_varint(data, position, end)
    if position < 0 or count < 0 or count > limit or count > (end - position) // MIN_HEADER:
        return BAD
    for _ in range(count):
        length, position = read_varint(data, position, end)
        if position < 0 or length < 0 or length > end - position:
            return BAD
        position += length
        length, position = read_varint(data, position, end)
        if position < 0 or length > end - position:
            return BAD
        if length > 0:
            position += length
    return position


@njit(
    types.UniTuple(types.int64, 3)(
        BYTES, types.int64, types.int64, types.int64, types.int64,
        types.int64, types.int64, types.int64, types.boolean, types.int64,
    ),
    cache=True,
    nogil=True,
    _nrt=False,
)  # fmt: skip
def walk_records(  # type: ignore[no-untyped-def]  # noqa: C901 - a branch for each rule
    data, index, position, largest, stop, base, earliest, latest, require_keys, max_headers
):
    """(index, position, largest timestamp) before the record at `stop`, or before the first that breaks a rule."""
    size = data.shape[0]
    while index < stop:
        at, end = record_end(data, position, size)
        delta, at = read_varint(data, at, end)
        if at < 0 or overflows(base, delta):
            break
        timestamp = base + delta
        if (timestamp < earliest or timestamp > latest) and timestamp != _NO_TIMESTAMP:
            break
        delta, at = read_varint(data, at, end)
        if at < 0 or delta != index:
            break
        length, at = read_varint(data, at, end)
        if at < 0 or length > end - at or (require_keys and length < 0):
            break
        if length > 0:
            at += length
        length, at = read_varint(data, at, end)
        if at < 0 or length > end - at:
            break
        if length > 0:
            at += length
        if at < end and data[np.uint64(at)] == 0:  # the usual case
            at += 1
        else:
            at = skip_headers(data, at, end, max_headers)
        if at != end:
            break
        largest = max(largest, timestamp)
        position = end
        index += 1
    return index, position, largest


def walk_compiled(data: bytes | bytearray, state: ScanState, stop: int, rules: RecordRules) -> ScanState:
    view = np.frombuffer(data, np.uint8)
    view.flags.writeable = False
    index, position, largest = walk_records(view, *state, stop, *rules)
    return ScanState(index, position, largest)
