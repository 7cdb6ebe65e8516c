"""Joins values into one text with one line per value, for parsers that read files.

A value that such a parser would read as more or less than one row (two objects, half an object, an unclosed quote)
would shift all following values to other offsets. Such a value is replaced by an empty row and marked.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

njit: Any = numba.njit
types: Any = numba.types

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
INTS = types.Array(types.int32, 1, "C", readonly=True)
OUT_BYTES = types.Array(types.uint8, 1, "C")

_SPACE, _TAB, _NEWLINE, _RETURN, _QUOTE, _BACKSLASH = 32, 9, 10, 13, 34, 92
_OPEN, _CLOSE = 123, 125

inlined = njit(cache=True, nogil=True, _nrt=False, inline="always")


@inlined
def after_string(data, position, end):  # type: ignore[no-untyped-def]
    """Position after the closing quote of a JSON string; `end` if it is unclosed or contains a newline."""
    while position < end:
        byte = data[position]
        if byte in (_NEWLINE, _RETURN):
            return end
        if byte == _QUOTE:
            return position + np.uint64(1)
        position += np.uint64(2) if byte == _BACKSLASH else np.uint64(1)
    return end


@inlined
def after_blanks(data, position, end):  # type: ignore[no-untyped-def]
    while position < end and data[position] in (_SPACE, _TAB, _NEWLINE, _RETURN):
        position += np.uint64(1)
    return position


@njit(types.boolean(BYTES, types.int64, types.int64), cache=True, nogil=True, _nrt=False)
def is_one_object(data, start, end):  # type: ignore[no-untyped-def]
    """Return True if the bytes are a single JSON object with balanced braces, optionally surrounded by blanks."""
    stop = np.uint64(end)
    position = after_blanks(data, np.uint64(start), stop)
    if position >= stop or data[position] != _OPEN:
        return False
    depth = 0
    while position < stop:
        byte = data[position]
        position += np.uint64(1)
        if byte == _QUOTE:
            position = after_string(data, position, stop)
        elif byte == _OPEN:
            depth += 1
        elif byte == _CLOSE:
            depth -= 1
            if depth == 0:
                return after_blanks(data, position, stop) == stop
    return False


@njit(types.boolean(BYTES, types.int64, types.int64), cache=True, nogil=True, _nrt=False)
def is_one_line(data, start, end):  # type: ignore[no-untyped-def]
    """Return True if the bytes are one CSV line: not empty, no newline, all quotes closed."""
    quotes = 0
    for position in range(np.uint64(start), np.uint64(end)):
        byte = data[position]
        if byte in (_NEWLINE, _RETURN):
            return False
        if byte == _QUOTE:
            quotes += 1
    return end > start and quotes % 2 == 0


@njit(
    types.int64(INTS, BYTES, BYTES, BYTES, types.boolean, OUT_BYTES, OUT_BYTES),
    cache=True,
    nogil=True,
    _nrt=False,
)
def join_lines(offsets, data, null, empty_row, json, lines, bad):  # type: ignore[no-untyped-def]
    """Write the lines; returns the bytes written. `bad` is 1 for a value that is not one row; a null is an empty
    row."""
    written = np.uint64(0)
    for row in range(offsets.size - 1):
        start, end = offsets[row], offsets[row + 1]
        good = null[row] == 0 and (is_one_object(data, start, end) if json else is_one_line(data, start, end))
        if good:
            for position in range(np.uint64(start), np.uint64(end)):
                byte = data[position]
                lines[written] = np.uint8(_SPACE) if byte in (_NEWLINE, _RETURN) else byte
                written += np.uint64(1)
        else:
            bad[row] = 1 - null[row]
            for position in range(np.uint64(empty_row.size)):
                lines[written] = empty_row[position]
                written += np.uint64(1)
        lines[written] = np.uint8(_NEWLINE)
        written += np.uint64(1)
    return np.int64(written)


def lines_of(values: pa.Array, *, json: bool, empty_row: bytes) -> tuple[pa.Buffer, npt.NDArray[np.bool_]]:
    """(the text, mask of invalid values): JSON objects or CSV lines; nulls and invalid values become `empty_row`."""
    rows = len(values)
    _, offsets_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[values.offset : values.offset + rows + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    null = np.zeros(rows, np.uint8)
    if values.null_count:
        null = values.is_null().to_numpy(zero_copy_only=False).astype(np.uint8)
    lines = np.empty(int(offsets[-1] - offsets[0]) + rows * (len(empty_row) + 1), np.uint8)
    bad = np.zeros(rows, np.uint8)
    written = join_lines(offsets, data, null, np.frombuffer(empty_row, np.uint8), json, lines, bad)
    return pa.py_buffer(lines[:written]), bad.astype(np.bool_)
