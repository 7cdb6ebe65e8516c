"""Runs of records that look alike: as long, with as long a key, one after the other.

Where values have a fixed size (counters, states, fixed schemas) whole batches are such runs. A regular expression finds
the end of a run and a `struct` its keys, several times as fast as a loop of Python over the bytes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain
from struct import Struct
from typing import NamedTuple

from barnabas.records.varints import read_varint, varint

MIN_RUN = 8  # for fewer records it does not pay


class Shape(NamedTuple):
    """How the bytes of a record are divided up."""

    length: bytes  # as it is written, at the start
    timestamp_width: int
    delta_width: int
    key_length: int
    rest: int  # what follows the key: the value and headers

    @property
    def before_key(self) -> int:
        return len(self.length) + 1 + self.timestamp_width + self.delta_width + 1

    @property
    def size(self) -> int:
        return self.before_key + self.key_length + self.rest


class _Reader(NamedTuple):
    run: re.Pattern[bytes]
    """Matches records of a shape, with a key and a value, one after the other."""
    key: Struct
    """Takes the key out of such a record."""


@lru_cache(maxsize=256)
def _reader(shape: Shape) -> _Reader:
    record = b"%b.[\\x80-\\xff]{%d}[\\x00-\\x7f].{%d}%b.{%d}[^\\x01].{%d}" % (
        re.escape(shape.length),
        shape.timestamp_width - 1,
        shape.delta_width,
        re.escape(varint(shape.key_length)),
        shape.key_length,
        shape.rest - 1,  # the byte before is the length of the value, and 1 is that of a null
    )
    return _Reader(
        re.compile(b"(?s)(?:%b)*+" % record), Struct(f"{shape.before_key}x{shape.key_length}s{shape.rest}x")
    )


def shape_at(data: bytes, position: int, delta_width: int, longest_key: int) -> Shape | None:
    """The shape of a record; None when it has no key, or a long one. IndexError or ValueError if it is malformed."""
    length, start = read_varint(data, position)
    _, after_timestamp = read_varint(data, start + 1)
    key_length, key = read_varint(data, after_timestamp + delta_width)
    rest = start + length - key - key_length
    if not 0 <= key_length <= longest_key or rest < 2 or key != after_timestamp + delta_width + 1:
        return None
    return Shape(data[position:start], after_timestamp - start - 1, delta_width, key_length, rest)


def note_run(
    data: bytes, position: int, most: int, shape: Shape, place: int, step: int, latest: dict[bytes, int]
) -> int:
    """Note the keys of the records from `position` on that look alike, `most` at most; how many there are.

    The first one's place is `place`, and each next one's is larger by `step` and by the size of a record.
    """
    size = shape.size
    reader = _reader(shape)
    found = reader.run.match(data, position, min(len(data), position + most * size))
    assert found is not None
    count = (found.end() - position) // size
    if count < MIN_RUN:
        return 0
    keys = chain.from_iterable(reader.key.iter_unpack(memoryview(data)[position : found.end()]))
    for key, where in zip(keys, range(place, place + count * (step + size), step + size), strict=True):
        latest[key] = where  # noqa: PERF403 - measured: 10 % faster than `update`
    return count
