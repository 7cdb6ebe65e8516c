"""Going through the records of a batch without building any: as far as nothing is wrong.

A walk reads lengths, deltas and numbers of headers, and stops at the first record that breaks a rule; which rule, and
in which words, is for `records/validation.py` to find out, one record at a time. There are two walks with the same
results: `walk_plain`, and one that numba compiles (`records/columnar/walk_kernels.py`), which is forty times as fast
and needs no GIL. numba takes a second and 100 MB to load, so the compiled walk is used after
`load_compiled`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import NamedTuple

from barnabas.records.varints import read_varint

SMALLEST_RECORD = 7
"""Length, attributes, two deltas, two lengths, the number of headers: a byte each."""
SMALLEST_HEADER = 2
UNLIMITED = (1 << 63) - 1
_NO_TIMESTAMP = -1


class Rules(NamedTuple):
    """What a record must keep to, besides being whole and having the offset after the one before."""

    base_timestamp: int
    earliest: int = -(1 << 63)
    latest: int = (1 << 63) - 1
    require_keys: bool = False
    most_headers: int = UNLIMITED


class Place(NamedTuple):
    """How far a walk has come: the number and position of the next record, the largest timestamp before it."""

    number: int = 0
    position: int = 0
    largest: int = _NO_TIMESTAMP


Walk = Callable[[bytes | bytearray, Place, int, Rules], Place]


def walk(data: bytes | bytearray, place: Place, stop: int, rules: Rules) -> Place:
    """Go on from a place to the record with number `stop`, or to the first one that breaks a rule."""
    return (_compiled or walk_plain)(data, place, stop, rules)


def walk_plain(  # noqa: C901 - all in one, because calls would double the time
    data: bytes | bytearray, place: Place, stop: int, rules: Rules
) -> Place:
    """In Python: half a microsecond for a record."""
    index, position, largest = place
    base, earliest, latest, require_keys, most_headers = rules
    size = len(data)
    try:
        while index < stop:
            byte = data[position]
            if byte < 128:
                at = position + 1
            elif (second := data[position + 1]) < 128:
                byte, at = byte & 127 | second << 7, position + 2
            else:
                byte, at = _read_folded(data, position)
            end = at + (byte >> 1)
            if byte & 1 or end > size:
                break
            byte = data[at + 1]  # behind the attributes, which mean nothing
            if byte < 128:
                timestamp, at = base + ((byte >> 1) ^ -(byte & 1)), at + 2
            else:
                delta, at = read_varint(data, at + 1)
                timestamp = base + delta
            if not earliest <= timestamp <= latest and timestamp != _NO_TIMESTAMP:
                break
            if data[at] == index << 1 and index < 64:
                at += 1
            else:
                delta, at = read_varint(data, at)
                if delta != index:
                    break
            byte = data[at]
            if byte < 128:
                at += 1
            else:
                byte, at = _read_folded(data, at)
            if not byte & 1:
                at += byte >> 1
            elif require_keys:
                break
            byte = data[at]
            if byte < 128:
                at += 1
            elif (second := data[at + 1]) < 128:
                byte, at = byte & 127 | second << 7, at + 2
            else:
                byte, at = _read_folded(data, at)
            if not byte & 1:
                at += byte >> 1
            at = at + 1 if data[at] == 0 else _skip_headers(data, at, end, most_headers)
            if at != end:
                break
            if timestamp > largest:
                largest = timestamp
            position = end
            index += 1
    except (IndexError, ValueError):
        pass
    return Place(index, position, largest)


def _read_folded(data: bytes | bytearray, position: int) -> tuple[int, int]:
    """(the number as it is written, with its sign in the lowest bit; the position after it)"""
    value, position = read_varint(data, position)
    return value << 1 if value >= 0 else 1, position


def _skip_headers(data: bytes | bytearray, at: int, end: int, most: int) -> int:
    """The position after the headers of a record; ValueError when there are too many, or one has no key."""
    count, at = read_varint(data, at)
    if not 0 <= count <= min(most, (end - at) // SMALLEST_HEADER):
        raise ValueError(count)
    for _ in range(count):
        byte = data[at]
        if byte < 128:
            at += 1
        else:
            byte, at = _read_folded(data, at)
        if byte & 1:
            raise ValueError(byte)
        at += byte >> 1
        byte = data[at]
        if byte < 128:
            at += 1
        else:
            byte, at = _read_folded(data, at)
        if not byte & 1:
            at += byte >> 1
    return at


# ---- the compiled walk -----------------------------------------------------------------------------

_compiled: Walk | None = None
_wanted = False
_tried = False


def want_compiled() -> None:
    """Many records will be walked through: it is worth loading the compiled walk. Nothing is loaded yet."""
    global _wanted
    _wanted = True


def compiled_is_wanted() -> bool:
    """Whether it is time to call `load_compiled`."""
    return _wanted and not _tried


def load_compiled() -> bool:
    """Load it, which takes seconds the first time on a machine: never on a loop. Is it there now?"""
    global _tried
    _tried = True
    if find_spec("numba") is not None:
        from barnabas.records.columnar.walk_kernels import walk_compiled  # what imports numba is an extra

        set_compiled(walk_compiled)
    return _compiled is not None


def set_compiled(compiled: Walk | None) -> None:
    """Use this walk from now on, or the plain one."""
    global _compiled
    _compiled = compiled
