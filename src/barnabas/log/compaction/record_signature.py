"""Fast path for runs of consecutive records with the same size and the same key length.

With values of a fixed size (counters, states, fixed schemas) a run often covers a whole batch. A regular expression
finds the end of the run and a `struct` its keys, several times as fast as a Python loop over the bytes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain
from struct import Struct
from typing import NamedTuple

from barnabas.records import read_varint, varint

MIN_RUN = 8  # shorter runs are not worth the overhead


class RecordShape(NamedTuple):
    """Layout of a record's bytes."""

    length: bytes  # the encoded length field
    timestamp_width: int
    delta_width: int
    key_length: int
    rest: int  # bytes after the key: value and headers

    @property
    def before_key(self) -> int:
        return len(self.length) + 1 + self.timestamp_width + self.delta_width + 1

    @property
    def size(self) -> int:
        return self.before_key + self.key_length + self.rest


class _Reader(NamedTuple):
    run: re.Pattern[bytes]
    """Matches consecutive records of one shape, each with a key and a value."""
    key: Struct
    """Unpacks the key of such a record."""


@lru_cache(maxsize=256)
def _reader(shape: RecordShape) -> _Reader:
    record = b"%b.[\\x80-\\xff]{%d}[\\x00-\\x7f].{%d}%b.{%d}[^\\x01].{%d}" % (
        re.escape(shape.length),
        shape.timestamp_width - 1,
        shape.delta_width,
        re.escape(varint(shape.key_length)),
        shape.key_length,
        shape.rest - 1,  # the byte before starts the length of the value; 1 encodes a null value
    )
    return _Reader(
        re.compile(b"(?s)(?:%b)*+" % record), Struct(f"{shape.before_key}x{shape.key_length}s{shape.rest}x")
    )


def shape_at(data: bytes, position: int, delta_width: int, longest_key: int) -> RecordShape | None:
    """Return the shape of a record; None if it has no key or a long one.

    Raise IndexError or ValueError if the record is malformed.
    """
    length, start = read_varint(data, position)
    _, after_timestamp = read_varint(data, start + 1)
    key_length, key = read_varint(data, after_timestamp + delta_width)
    rest = start + length - key - key_length
    if not 0 <= key_length <= longest_key or rest < 2 or key != after_timestamp + delta_width + 1:
        return None
    return RecordShape(data[position:start], after_timestamp - start - 1, delta_width, key_length, rest)


def note_run(
    data: bytes,
    position: int,
    max_count: int,
    shape: RecordShape,
    location: int,
    step: int,
    latest: dict[bytes, int],
) -> int:
    """Record the keys of up to `max_count` records of this shape from `position` on; return their number.

    The location of the first one is `location`; from each to the next it grows by `step` plus the record size.
    """
    size = shape.size
    reader = _reader(shape)
    run = reader.run.match(data, position, min(len(data), position + max_count * size))
    assert run is not None
    count = (run.end() - position) // size
    if count < MIN_RUN:
        return 0
    keys = chain.from_iterable(reader.key.iter_unpack(memoryview(data)[position : run.end()]))
    locations = range(location, location + count * (step + size), step + size)
    for key, each in zip(keys, locations, strict=True):
        latest[key] = each  # noqa: PERF403 - measured: 10 % faster than `update`
    return count
