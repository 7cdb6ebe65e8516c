"""Batches of lines of one file: records with the same key and headers, and where each begins in a last header.

An agent builds nothing else, a million a second at times, so this is written for speed: one pass, no object a record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from barnabas.records.batch import HEADER_SIZE
from barnabas.records.blocks import Block
from barnabas.records.builder import encode_headers
from barnabas.records.compression import Codec, compress
from barnabas.records.record import Header
from barnabas.records.varints import varint
from barnabas.common.types import TopicPartition

MOST_RECORDS = 8192
"""Of one batch: a broker that must look at records looks at these in a few milliseconds."""
RECORD_OVERHEAD = 48
"""At most, beside key, value and headers: lengths, deltas and the decimal digits of the place."""

_VARINTS = tuple(varint(number) for number in range(MOST_RECORDS))
_NO_ATTRIBUTES_NO_TIMESTAMP_DELTA = b"\x00\x00"
_BEGINNINGS = tuple(length + _NO_ATTRIBUTES_NO_TIMESTAMP_DELTA for length in _VARINTS)
"""Of records, by their length."""
_MOST_DIGITS = 20


class LineEncoder:
    """Makes batches of the lines of one file."""

    def __init__(
        self, key: bytes, headers: Sequence[Header], place_header: str, *, codec: int = Codec.NONE
    ) -> None:
        name = place_header.encode()
        self._before = varint(len(key)) + key
        after = varint(len(headers) + 1) + encode_headers(tuple(headers)) + varint(len(name)) + name
        self._after = tuple(after + varint(digits) for digits in range(_MOST_DIGITS))
        self._codec = codec
        self.overhead = len(self._before) + len(self._after[0]) + RECORD_OVERHEAD

    def batches(
        self,
        partition: TopicPartition,
        lines: Sequence[bytes],
        places: Sequence[int],
        timestamp: int,
        most_bytes: int,
    ) -> Iterator[Block]:
        """A line that is larger than `most_bytes` gets a batch of its own."""
        for first, last in _groups(lines, places, self.overhead, most_bytes):
            records = self._encode(lines[first:last], places[first:last])
            data = bytearray(HEADER_SIZE)
            data += compress(self._codec, records) if self._codec else records
            yield Block(*partition, data, last - first, self._codec, timestamp, timestamp)

    def _encode(self, lines: Sequence[bytes], places: Sequence[int]) -> bytes:
        parts: list[bytes] = []
        add, known, beginnings, most = parts.extend, _VARINTS, _BEGINNINGS, len(_VARINTS)
        before, afters = self._before, self._after
        fixed = 2 + len(before) + len(afters[0])
        for number, line, offset in zip(known, lines, places, strict=False):
            length, place = len(line), b"%d" % offset
            size = known[length] if length < most else varint(length)
            whole = fixed + len(number) + len(size) + length + len(place)
            begin = beginnings[whole] if whole < most else varint(whole) + _NO_ATTRIBUTES_NO_TIMESTAMP_DELTA
            add((begin, number, before, size, line, afters[len(place)], place))
        return b"".join(parts)


def _groups(
    lines: Sequence[bytes], places: Sequence[int], overhead: int, most_bytes: int
) -> Iterator[tuple[int, int]]:
    """Where batches begin and end. Lines lie one behind the other: their places tell how long they are together."""
    first = 0
    while first < len(lines):
        limit = places[first] + most_bytes - overhead * (1 - first)
        candidates = range(first, min(len(lines), first + MOST_RECORDS))
        fitting = bisect_right(
            candidates, limit, key=lambda index: places[index] + len(lines[index]) + overhead * index
        )
        last = first + max(1, fitting)
        yield first, last
        first = last
