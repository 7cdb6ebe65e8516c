"""Builds record batches for producers, coordinators and the log cleaner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from barnabas.records.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    TimestampType,
    write_crc,
)
from barnabas.records.compression import Codec, compress
from barnabas.records.record import Header, Record
from barnabas.records.varints import small_varints, varint

NO_LEADER_EPOCH = -1

_NULL = varint(-1)
_NO_HEADERS = varint(0)
_NO_ATTRIBUTES = b"\x00"
MAX_RECORD_OVERHEAD = (
    36  # five lengths and the offset delta of 5 bytes each, attributes, timestamp delta of 10
)
_MAX_HEADER_OVERHEAD = 10


TIMESTAMP: Final = 1  # field of Record


class KeyedRecord(Protocol):
    """Key, value and headers of a record, without offset and timestamp."""

    @property
    def key(self) -> bytes | None: ...

    @property
    def value(self) -> bytes | None: ...

    @property
    def headers(self) -> tuple[Header, ...]: ...


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    compression: int = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """Build a batch with consecutive offsets from `base_offset`; the offsets of `records` are ignored.

    Records may be plain tuples of their fields, as producers collect them.
    With LOG_APPEND_TIME, readers see the largest timestamp on every record.
    """
    if not records:
        raise ValueError("a batch of new records cannot be empty")
    attributes = (
        compression
        | (TIMESTAMP_TYPE_BIT if timestamp_type else 0)
        | (TRANSACTIONAL_BIT if transactional else 0)
        | (CONTROL_BIT if control else 0)
    )
    base_timestamp = records[0][TIMESTAMP]
    header = BatchHeader(
        base_offset=base_offset,
        length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max(record[TIMESTAMP] for record in records),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return assemble_batch(header, encode_records(records, base_timestamp), level)


def build_batch_at(
    timestamp: int,
    records: Sequence[KeyedRecord],
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
) -> bytearray:
    """Build an uncompressed batch in which all records have one timestamp, as coordinators write it. With a
    producer id it is part of a transaction."""
    if not records:
        raise ValueError("a batch of new records cannot be empty")
    data = b"".join([encode_record(delta, 0, record) for delta, record in enumerate(records)])
    batch = bytearray(HEADER_SIZE)
    batch += data
    last = len(records) - 1
    attributes = TRANSACTIONAL_BIT if producer_id >= 0 else 0
    HEADER.pack_into(
        batch, 0,
        0, len(batch) - LOG_OVERHEAD, NO_LEADER_EPOCH, MAGIC, 0, attributes, last, timestamp, timestamp,
        producer_id, producer_epoch, NO_SEQUENCE, last + 1,
    )  # fmt: skip
    write_crc(batch, 0, len(batch))
    return batch


def assemble_batch(header: BatchHeader, data: bytes | bytearray, level: int | None = None) -> bytearray:
    """Join header and encoded records: compressed as the attributes require, with length and CRC set."""
    codec = header.attributes & COMPRESSION_MASK
    if codec:
        data = compress(codec, data, level)
    batch = bytearray(HEADER_SIZE)
    batch += data
    HEADER.pack_into(batch, 0, *header._replace(length=len(batch) - LOG_OVERHEAD))
    write_crc(batch, 0, len(batch))
    return batch


def encode_records(records: Sequence[Record], base_timestamp: int) -> bytes:
    """Records with consecutive offsets. Usual ones take a quarter of the time of `encode_record`."""
    known = small_varints()
    limit = len(known) - MAX_RECORD_OVERHEAD
    parts: list[bytes] = []
    add = parts.extend
    for delta, record in enumerate(records):
        _, timestamp, key, value, headers = record
        passed = timestamp - base_timestamp
        length = len(value or b"") + len(key or b"")
        if headers or value is None or delta > limit or length > limit or not 0 <= passed < limit:
            parts.append(encode_record(delta, passed, Record(*record)))
            continue
        number, moment, size = known[delta], known[passed], known[len(value)]
        length += len(number) + len(moment) + len(size) + 2
        if key is None:
            add((known[length + 1], _NO_ATTRIBUTES, moment, number, _NULL, size, value, _NO_HEADERS))
        else:
            before = known[len(key)]
            length += len(before)
            add((known[length], _NO_ATTRIBUTES, moment, number, before, key, size, value, _NO_HEADERS))
    return b"".join(parts)


def encode_record(offset_delta: int, timestamp_delta: int, record: KeyedRecord) -> bytes:
    key, value, headers = record.key, record.value, record.headers
    body = b"".join(
        (
            _NO_ATTRIBUTES,
            varint(timestamp_delta),
            varint(offset_delta),
            _NULL if key is None else varint(len(key)),
            key or b"",
            _NULL if value is None else varint(len(value)),
            value or b"",
            varint(len(headers)) + encode_headers(headers) if headers else _NO_HEADERS,
        )
    )
    return varint(len(body)) + body


def encode_headers(headers: tuple[Header, ...]) -> bytes:
    """Encoded headers, without the count that precedes them."""
    parts: list[bytes] = []
    for name, value in headers:
        key = name.encode("utf-8", "surrogateescape")
        parts += (varint(len(key)), key)
        parts += (_NULL,) if value is None else (varint(len(value)), value)
    return b"".join(parts)


def largest_encoded_size(record: Record) -> int:
    """Upper bound on the bytes of a record in a batch, for callers that fill batches up to a size."""
    size = MAX_RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += _MAX_HEADER_OVERHEAD + 4 * len(name) + len(value or b"")
    return size
