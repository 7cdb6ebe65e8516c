"""One-pass reader of flat JSON objects: finds and decodes the values of the requested fields.

Most events are such objects. Any other row (an escape, a nested value, a number with an exponent, a duplicate
field, a field of another type) is marked as odd and left to a full parser. The subset read here is valid under RFC
8259 and gives the same values as a full parser; the caller checks strings for UTF-8.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from barnabas.records.columnar.line_kernels import BYTES, INTS, OUT_BYTES, after_blanks

njit: Any = numba.njit
types: Any = numba.types

LONGS = types.Array(types.int64, 1, "C", readonly=True)
SPANS = types.Array(types.int32, 2, "C")
SPAN_ROWS = types.Array(types.int32, 1, "C")
OUT_LONGS = types.Array(types.int64, 1, "C")
OUT_DOUBLES = types.Array(types.float64, 1, "C")

TEXT, INTEGER, NUMBER, TRUTH, NOTHING, ODD = 0, 1, 2, 3, 4, -1
ABSENT = -1  # the start of a value that is null or absent
MAX_DIGITS = 18  # digits of an integer that always fits into 64 bits
EXACT_DIGITS = 15  # of a number that a double holds exactly: its quotient by a power of ten rounds correctly

_QUOTE, _BACKSLASH, _OPEN, _CLOSE, _COLON, _COMMA = 34, 92, 123, 125, 58, 44
_MINUS, _POINT, _ZERO, _NINE = 45, 46, 48, 57
_TRUE, _FALSE, _NULL = (np.frombuffer(word, np.uint8) for word in (b"true", b"false", b"null"))
_POWERS = 10.0 ** np.arange(EXACT_DIGITS + 1)

inlined = njit(cache=True, nogil=True, _nrt=False, inline="always")
called = njit(cache=True, nogil=True, _nrt=False)


@inlined
def end_of_text(data, position, end):  # type: ignore[no-untyped-def]
    """Position of the closing quote; `end` for a string with an escape or a control character, or without a quote."""
    while position < end:
        byte = data[position]
        if byte == _QUOTE:
            return position
        if byte == _BACKSLASH or byte < 32:
            return end
        position += np.uint64(1)
    return end


@inlined
def after_digits(data, position, end):  # type: ignore[no-untyped-def]
    while position < end and _ZERO <= data[position] <= _NINE:
        position += np.uint64(1)
    return position


@called
def number_at(data, start, end):  # type: ignore[no-untyped-def]
    """(kind, position after it) of a number without an exponent."""
    position = start + np.uint64(1) if data[start] == _MINUS else start
    first = position
    position = after_digits(data, position, end)
    digits = position - first
    if digits == 0 or (digits > 1 and data[first] == _ZERO):
        return ODD, position
    if position >= end or data[position] != _POINT:
        return INTEGER, position
    fraction = position + np.uint64(1)
    position = after_digits(data, fraction, end)
    return (NUMBER if position > fraction else ODD), position


@inlined
def is_name(data, start, size, names, first):  # type: ignore[no-untyped-def]
    for index in range(size):  # noqa: SIM110 - numba has no generators
        if data[start + index] != names[first + index]:
            return False
    return True


@inlined
def is_word(data, start, end, word):  # type: ignore[no-untyped-def]
    size = np.uint64(word.size)
    return end - start >= size and is_name(data, start, size, word, np.uint64(0))


@called
def word_at(data, start, end):  # type: ignore[no-untyped-def]
    """(kind, position after it) of `true`, `false` or `null`."""
    if is_word(data, start, end, _TRUE):
        return TRUTH, start + np.uint64(4)
    if is_word(data, start, end, _FALSE):
        return TRUTH, start + np.uint64(5)
    if is_word(data, start, end, _NULL):
        return NOTHING, start + np.uint64(4)
    return ODD, start


@inlined
def column_of(data, start, end, names, bounds, likely):  # type: ignore[no-untyped-def]
    """Index of the requested field with this name, or ODD if none matches; `likely` is tried first."""
    size, columns = end - start, bounds.size - 1
    for step in range(columns):
        column = likely + step
        if column >= columns:
            column -= columns
        first = np.uint64(bounds[column])
        if np.uint64(bounds[column + 1]) - first == size and is_name(data, start, size, names, first):
            return column
    return ODD


@inlined
def value_at(data, position, end):  # type: ignore[no-untyped-def]
    """(kind, start, end, position after it) of a value; the span of a text excludes its quotes."""
    byte = data[position]
    if byte == _QUOTE:
        start = position + np.uint64(1)
        stop = end_of_text(data, start, end)
        return TEXT, start, stop, stop + np.uint64(1)
    if byte == _MINUS or _ZERO <= byte <= _NINE:
        kind, stop = number_at(data, position, end)
        return kind, position, stop, stop
    kind, stop = word_at(data, position, end)
    return kind, position, stop, stop


@inlined
def keep_value(kind, start, stop, requested, starts, ends, column, row):  # type: ignore[no-untyped-def]
    """Record the span of a value; False for a duplicate field and for a value of another type."""
    if ends[column, row] != 0:
        return False
    ends[column, row] = np.int32(stop)
    if kind == NOTHING:
        return True
    starts[column, row] = np.int32(start)
    return kind == requested or (kind == INTEGER and requested == NUMBER)


@inlined
def first_name(data, position, end):  # type: ignore[no-untyped-def]
    """Position of the first name of an object, or of its closing brace; `end` if it is not an object."""
    position = after_blanks(data, position, end)
    if position >= end or data[position] != _OPEN:
        return end
    return after_blanks(data, position + np.uint64(1), end)


@inlined
def after_colon(data, position, end):  # type: ignore[no-untyped-def]
    """Position of the value of a field; `end` if there is none."""
    position = after_blanks(data, position, end)
    if position >= end or data[position] != _COLON:
        return end
    return after_blanks(data, position + np.uint64(1), end)


@inlined
def is_end(data, position, end):  # type: ignore[no-untyped-def]
    """Return True if the object ends here and nothing follows."""
    if position >= end or data[position] != _CLOSE:
        return False
    return after_blanks(data, position + np.uint64(1), end) == end


@inlined
def read_object(data, position, end, names, bounds, kinds, starts, ends, row):  # type: ignore[no-untyped-def]
    """Write the spans of the requested values of one object; False unless it is a flat object."""
    one, likely = np.uint64(1), 0
    position = first_name(data, position, end)
    if is_end(data, position, end):
        return True
    while position < end and data[position] == _QUOTE:
        name = position + one
        name_end = end_of_text(data, name, end)
        position = after_colon(data, name_end + one, end)
        if position >= end:
            return False
        kind, start, stop, position = value_at(data, position, end)
        if kind == ODD:
            return False
        column = column_of(data, name, name_end, names, bounds, likely)
        if column != ODD:
            likely = column + 1
            if not keep_value(kind, start, stop, kinds[column], starts, ends, column, row):
                return False
        position = after_blanks(data, position, end)
        if position >= end or data[position] != _COMMA:
            return is_end(data, position, end)
        position = after_blanks(data, position + one, end)
    return False


@njit(
    types.int64(INTS, BYTES, BYTES, BYTES, INTS, INTS, SPANS, SPANS, OUT_BYTES),
    cache=True,
    nogil=True,
    _nrt=False,
)
def find_values(offsets, data, null, names, bounds, kinds, starts, ends, odd):  # type: ignore[no-untyped-def]
    """Write the spans of all values to `starts` and `ends` (one row per field); returns the number of odd rows."""
    count = 0
    for row in range(offsets.size - 1):
        for column in range(kinds.size):
            starts[column, row], ends[column, row] = ABSENT, 0
        if null[row]:
            continue
        start, end = np.uint64(offsets[row]), np.uint64(offsets[row + 1])
        if not read_object(data, start, end, names, bounds, kinds, starts, ends, row):
            odd[row] = 1
            count += 1
            for column in range(kinds.size):
                starts[column, row] = ABSENT
    return count


@njit(
    types.int64(BYTES, SPAN_ROWS, SPAN_ROWS, SPAN_ROWS, OUT_BYTES, OUT_BYTES),
    cache=True,
    nogil=True,
    _nrt=False,
)
def copy_texts(data, starts, ends, offsets, out, valid):  # type: ignore[no-untyped-def]
    """Copy the texts; returns the bytes written. `valid` is 1 for rows with a text."""
    written = np.uint64(0)
    offsets[0] = 0
    for row in range(starts.size):
        if starts[row] != ABSENT:
            valid[row] = 1
            start = np.uint64(starts[row])
            size = np.uint64(ends[row]) - start
            for index in range(size):
                out[written + index] = data[start + index]
            written += size
        offsets[row + 1] = np.int32(written)
    return np.int64(written)


@inlined
def decimal_digits(data, start, end):  # type: ignore[no-untyped-def]
    """(all digits as one integer, number of significant digits, number of fraction digits)"""
    value, digits, behind, pointed = np.int64(0), 0, 0, False
    for position in range(start, end):
        byte = data[position]
        if byte == _POINT:
            pointed = True
            continue
        if value or byte != _ZERO:
            digits += 1
        if digits > MAX_DIGITS:
            break
        value = value * 10 + (np.int64(byte) - _ZERO)
        behind += pointed
    return value, digits, behind


@njit(
    types.int64(BYTES, SPAN_ROWS, SPAN_ROWS, types.int64, OUT_LONGS, OUT_BYTES, OUT_BYTES),
    cache=True,
    nogil=True,
    _nrt=False,
)
def read_integers(data, starts, ends, max_value, out, valid, odd):  # type: ignore[no-untyped-def]
    """Decode integers; return the number of invalid rows: too many digits, or an absolute value above `max_value`."""
    count = 0
    for row in range(starts.size):
        out[row] = 0
        if starts[row] == ABSENT:
            continue
        start, end = np.uint64(starts[row]), np.uint64(ends[row])
        negative = data[start] == _MINUS
        value, digits, _ = decimal_digits(data, start + np.uint64(negative), end)
        if digits > MAX_DIGITS or value > max_value or (negative and value == 0):
            odd[row] = 1
            count += 1
        else:
            valid[row] = 1
            out[row] = -value if negative else value
    return count


@njit(
    types.int64(BYTES, SPAN_ROWS, SPAN_ROWS, OUT_DOUBLES, OUT_BYTES, OUT_BYTES),
    cache=True,
    nogil=True,
    _nrt=False,
)
def read_doubles(data, starts, ends, out, valid, odd):  # type: ignore[no-untyped-def]
    """Decode doubles; returns the number of odd rows: numbers that need more than one exact division."""
    count = 0
    for row in range(starts.size):
        out[row] = 0.0
        if starts[row] == ABSENT:
            continue
        start, end = np.uint64(starts[row]), np.uint64(ends[row])
        negative = data[start] == _MINUS
        value, digits, behind = decimal_digits(data, start + np.uint64(negative), end)
        if digits > EXACT_DIGITS or behind > EXACT_DIGITS:
            odd[row] = 1
            count += 1
        else:
            valid[row] = 1
            found = np.float64(value) / _POWERS[behind]
            out[row] = -found if negative else found
    return count
