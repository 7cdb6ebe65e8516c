"""Scans the records of a batch without building them.

A scan reads lengths, deltas and header counts, and stops at the first record that breaks a rule;
`records/validation.py` then produces the error message. Two implementations give the same results: `walk_plain`,
and one compiled by numba (`records/columnar/walk_kernels.py`), which is forty times as fast and releases the GIL.
Loading numba takes a second and 100 MB, so the compiled scan is used after `load_compiled`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import NamedTuple

from barnabas.records.varints import read_varint

MIN_RECORD = 7
"""One byte each: length, attributes, two deltas, two lengths, the header count."""
MIN_HEADER = 2
UNLIMITED = (1 << 63) - 1
_NO_TIMESTAMP = -1


class RecordRules(NamedTuple):
    """Rules for a record, in addition to being well-formed and having the next offset."""

    base_timestamp: int
    earliest: int = -(1 << 63)
    latest: int = (1 << 63) - 1
    require_keys: bool = False
    max_headers: int = UNLIMITED


class ScanState(NamedTuple):
    """Progress of a scan: index and position of the next record, and the largest timestamp so far."""

    number: int = 0
    position: int = 0
    largest: int = _NO_TIMESTAMP


Walk = Callable[[bytes | bytearray, ScanState, int, RecordRules], ScanState]


def walk(data: bytes | bytearray, state: ScanState, stop: int, rules: RecordRules) -> ScanState:
    """Scan from `state` to record `stop`, or to the first record that breaks a rule."""
    return (_compiled or walk_plain)(data, state, stop, rules)


def walk_plain(  # noqa: C901 - one function, because calls would double the time
    data: bytes | bytearray, state: ScanState, stop: int, rules: RecordRules
) -> ScanState:
    """Scan in Python: half a microsecond per record."""
    index, position, largest = state
    base, earliest, latest, require_keys, max_headers = rules
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
            byte = data[at + 1]  # after the attributes, which are unused
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
            at = at + 1 if data[at] == 0 else _skip_headers(data, at, end, max_headers)
            if at != end:
                break
            if timestamp > largest:
                largest = timestamp
            position = end
            index += 1
    except (IndexError, ValueError):
        pass
    return ScanState(index, position, largest)


def _read_folded(data: bytes | bytearray, position: int) -> tuple[int, int]:
    """(the number as encoded, with its sign in the lowest bit; the position after it)"""
    value, position = read_varint(data, position)
    return value << 1 if value >= 0 else 1, position


def _skip_headers(data: bytes | bytearray, at: int, end: int, limit: int) -> int:
    """The position after the headers of a record; ValueError if there are too many, or one has no key."""
    count, at = read_varint(data, at)
    if not 0 <= count <= min(limit, (end - at) // MIN_HEADER):
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


# ---- the compiled scan -----------------------------------------------------------------------------

_compiled: Walk | None = None
_wanted = False
_tried = False


def enable_compiled() -> None:
    """Request the compiled scan because many records will be validated. Loads nothing yet."""
    global _wanted
    _wanted = True


def compiled_is_enabled() -> bool:
    """Return True if `load_compiled` should be called."""
    return _wanted and not _tried


def load_compiled() -> bool:
    """Load the compiled scan, which takes seconds the first time: do not call it on the event loop. True if loaded."""
    global _tried
    _tried = True
    if find_spec("numba") is not None:
        from barnabas.records.columnar.walk_kernels import walk_compiled  # numba is an extra

        set_compiled(walk_compiled)
    return _compiled is not None


def set_compiled(compiled: Walk | None) -> None:
    """Set the scan to use; None for `walk_plain`."""
    global _compiled
    _compiled = compiled
