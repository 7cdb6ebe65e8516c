"""Batches that clients encode in one pass, without an object per record.

- Batches without a producer id: a Spark task writes one in its transaction, or returns it to its driver.
- Batches of lines of one file, of which ingest agents encode up to a million a second.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from barnabas.common.types import TopicPartition
from barnabas.records.batch import (
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    write_crc,
)
from barnabas.records.builder import NO_LEADER_EPOCH, encode_headers, encode_record
from barnabas.records.compression import Codec, compress
from barnabas.records.record import Header, Record
from barnabas.records.varints import SMALL, small_varints, varint


@dataclass(slots=True)
class Block:
    """Encoded records of one partition; `data` reserves room for the batch header in front of them."""

    topic: str
    partition: int
    data: bytearray
    count: int
    attributes: int
    base_timestamp: int
    max_timestamp: int

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def seal(
        self,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        *,
        transactional: bool = False,
    ) -> bytearray:
        """Write the batch header in place and return the batch. A later call overwrites the header."""
        header = BatchHeader(
            base_offset=0,
            length=len(self.data) - LOG_OVERHEAD,
            leader_epoch=NO_LEADER_EPOCH,
            magic=MAGIC,
            crc=0,
            attributes=self.attributes | (TRANSACTIONAL_BIT if transactional else 0),
            last_offset_delta=self.count - 1,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=self.count,
        )
        HEADER.pack_into(self.data, 0, *header)
        write_crc(self.data, 0, len(self.data))
        return self.data


def block_of(tp: TopicPartition, record: Record) -> Block:
    """A block of one record."""
    data = bytearray(HEADER_SIZE)
    data += encode_record(0, 0, record)
    return Block(tp.topic, tp.partition, data, 1, 0, record.timestamp, record.timestamp)


# -- Lines of one file: equal key and headers; the last header is the line's file offset ---------------

MAX_RECORDS = SMALL
"""Maximum records per batch: a broker validates these in a few milliseconds."""
RECORD_OVERHEAD = 48
"""Upper bound per record, without key, value and headers: lengths, deltas and the digits of the file offset."""

_VARINTS = small_varints()
_NO_ATTRIBUTES_NO_TIMESTAMP_DELTA = b"\x00\x00"
_BEGINNINGS = tuple(length + _NO_ATTRIBUTES_NO_TIMESTAMP_DELTA for length in _VARINTS)
"""Encoded lengths by record length."""
_MAX_DIGITS = 20


class LineEncoder:
    """Encodes the lines of one file into batches."""

    def __init__(
        self, key: bytes, headers: Sequence[Header], offset_header: str, *, codec: int = Codec.NONE
    ) -> None:
        name = offset_header.encode()
        self._before = varint(len(key)) + key
        after = varint(len(headers) + 1) + encode_headers(tuple(headers)) + varint(len(name)) + name
        self._after = tuple(after + varint(digits) for digits in range(_MAX_DIGITS))
        self._codec = codec
        self.overhead = len(self._before) + len(self._after[0]) + RECORD_OVERHEAD

    def batches(
        self,
        partition: TopicPartition,
        lines: Sequence[bytes],
        offsets: Sequence[int],
        timestamp: int,
        max_bytes: int,
    ) -> Iterator[Block]:
        """Encode batches of up to `max_bytes`; a longer line gets a separate batch."""
        for first, last in _groups(lines, offsets, self.overhead, max_bytes):
            records = self._encode(lines[first:last], offsets[first:last])
            data = bytearray(HEADER_SIZE)
            data += compress(self._codec, records) if self._codec else records
            yield Block(*partition, data, last - first, self._codec, timestamp, timestamp)

    def _encode(self, lines: Sequence[bytes], offsets: Sequence[int]) -> bytes:
        parts: list[bytes] = []
        add, known, beginnings, table_size = parts.extend, _VARINTS, _BEGINNINGS, len(_VARINTS)
        before, afters = self._before, self._after
        fixed = 2 + len(before) + len(afters[0])
        for number, line, offset in zip(known, lines, offsets, strict=False):
            length, digits = len(line), b"%d" % offset
            size = known[length] if length < table_size else varint(length)
            encoded = fixed + len(number) + len(size) + length + len(digits)
            begin = (
                beginnings[encoded]
                if encoded < table_size
                else varint(encoded) + _NO_ATTRIBUTES_NO_TIMESTAMP_DELTA
            )
            add((begin, number, before, size, line, afters[len(digits)], digits))
        return b"".join(parts)


def _groups(
    lines: Sequence[bytes], offsets: Sequence[int], overhead: int, max_bytes: int
) -> Iterator[tuple[int, int]]:
    """(first, last) line of each batch. Lines are contiguous, so their offsets give the total size."""
    first = 0
    while first < len(lines):
        table_size = offsets[first] + max_bytes - overhead * (1 - first)
        candidates = range(first, min(len(lines), first + MAX_RECORDS))
        fitting = bisect_right(
            candidates, table_size, key=lambda index: offsets[index] + len(lines[index]) + overhead * index
        )
        last = first + max(1, fitting)
        yield first, last
        first = last
