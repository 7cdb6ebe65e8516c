"""The header of a record batch (magic 2), read and stamped in place.

A batch on the wire and in a segment file is the same bytes. The base offset, the length and the leader epoch are
outside the CRC, so that the broker can set them without changing the CRC of the producer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from barnabas.common.files import Bytes

HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12  # base offset and length, which `length` does not count
MAGIC: Final = 2
MAGIC_POSITION: Final = 16
CRC_START: Final = 21  # the CRC covers everything from the attributes to the end
MIN_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08  # set: LogAppendTime
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1

unpack_header = HEADER.unpack_from
"""The fields of a BatchHeader as a plain tuple."""
write_stamp = Struct(">qii").pack_into
"""`stamp` without the Python call: buffer, position, base offset, length, leader epoch."""
_ATTRIBUTES_POSITION = 21
_MAX_TIMESTAMP_POSITION = 35


class TimestampType(IntEnum):
    """Origin of a batch's timestamps: the producer's clock or the broker's."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        return add_to_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & TIMESTAMP_TYPE_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_producer(self) -> bool:
        return self.producer_id >= 0


Walked = Sequence[tuple[int, BatchHeader]]
"""(position, header) of the batches in a buffer, as returned by `iterate_headers`."""


def read_header(buffer: Bytes, position: int = 0) -> BatchHeader:
    """The header at `position`; struct.error if fewer than 61 bytes are left."""
    return BatchHeader._make(HEADER.unpack_from(buffer, position))


def crc_is_right(batch: memoryview, position: int, size: int) -> bool:
    stored = int.from_bytes(batch[position + 17 : position + CRC_START], "big")
    return bool(crc32c(batch[position + CRC_START : position + size]) == stored)


def stamp(
    buffer: bytearray | memoryview, position: int, base_offset: int, length: int, leader_epoch: int
) -> None:
    """Write the fields that the leader sets before it appends. The CRC does not cover them."""
    write_stamp(buffer, position, base_offset, length, leader_epoch)


def stamp_log_append_time(buffer: bytearray | memoryview, position: int, size: int, now_ms: int) -> None:
    """Convert a batch to LogAppendTime: set the attribute bit, the max timestamp and a new CRC."""
    buffer[position + _ATTRIBUTES_POSITION + 1] |= TIMESTAMP_TYPE_BIT
    buffer[position + _MAX_TIMESTAMP_POSITION : position + _MAX_TIMESTAMP_POSITION + 8] = now_ms.to_bytes(
        8, "big", signed=True
    )
    write_crc(buffer, position, size)


def write_crc(buffer: bytearray | memoryview, position: int, size: int) -> None:
    crc = crc32c(memoryview(buffer)[position + CRC_START : position + size])
    buffer[position + 17 : position + CRC_START] = crc.to_bytes(4, "big")


def add_to_sequence(sequence: int, increment: int) -> int:
    """Add with Kafka's wrap-around from 2^31-1 to 0."""
    return (sequence + increment) & 0x7FFFFFFF


def iterate_headers(buffer: Bytes) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every complete batch; a torn batch at the end is skipped."""
    position, end, new = 0, len(buffer), BatchHeader._make
    while position + HEADER_SIZE <= end:
        header = new(unpack_header(buffer, position))
        behind = position + header[1] + LOG_OVERHEAD
        if header[1] < MIN_LENGTH or behind > end:
            return
        yield position, header
        position = behind
