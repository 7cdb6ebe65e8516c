"""Decodes the records of a batch.

The broker's hot path does not use this module. Consumers, compaction, lookups by timestamp and
`records/validation.py` do, on bytes that any client may have written: malformed data raise `InvalidRecords`, and
memory is bounded by the limits on decompression and headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import Bytes
from barnabas.records.batch import HEADER_SIZE, MIN_LENGTH, BatchHeader
from barnabas.records.compression import DECOMPRESSED_LIMIT, MAX_BLOCKS, CompressionError, unpack
from barnabas.records.varints import read_varint

Header = tuple[str, bytes | None]
Buffer = bytes | bytearray

MAX_HEADERS = 100_000
"""Maximum headers per decoded record: a header takes two bytes in a batch, and a hundred as an object."""

_MIN_TIMESTAMP, _MAX_TIMESTAMP = -(1 << 63), (1 << 63) - 1


class Record(NamedTuple):
    """One record with its absolute offset and timestamp. A null key or value is None.

    Header keys are text; bytes that are not valid UTF-8 are kept as surrogate escapes.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class InvalidRecords(KafkaError):  # noqa: N818 - reads as the reason it is: "refused: invalid records"
    """Records that a broker must reject. `record_errors`: (index in the batch, error message)."""

    def __init__(
        self,
        message: str,
        record_errors: list[tuple[int, str]] | None = None,
        code: ErrorCode = ErrorCode.INVALID_RECORD,
    ) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors or []


def iterate_records(batch: Bytes, header: BatchHeader, limit: int = DECOMPRESSED_LIMIT) -> Iterator[Record]:
    """The records of one batch, in order, decompressed to at most `limit` bytes.

    Raises InvalidRecords at the first malformed record, after yielding those before it. Control batches are
    included; `records/control.py` parses their records.
    """
    data = record_data(batch, header, limit)
    append_time = header.max_timestamp if header.is_log_append_time else None
    position = index = 0
    try:
        while index < header.record_count:
            record, position = _read_record(data, position, header, append_time, MAX_HEADERS)
            yield record
            index += 1
    except (IndexError, ValueError) as error:
        raise _bad_record(header, index, error) from None
    check_end(data, position, header)


def read_record(
    data: Buffer, position: int, index: int, header: BatchHeader, max_headers: int
) -> tuple[Record, int]:
    """The record at `index` of a producer's batch, and the position of the next one."""
    try:
        # From a bytearray, key and value are bytearrays too: callers do not keep them.
        return _read_record(cast(bytes, data), position, header, None, max_headers)
    except (IndexError, ValueError) as error:
        raise _bad_record(header, index, error) from None


def check_end(data: Buffer, position: int, header: BatchHeader) -> None:
    """Raise InvalidRecords if bytes follow the last record."""
    if position != len(data):
        raise InvalidRecords(
            f"{len(data) - position} bytes follow the {header.record_count} records of a batch"
        )


def iterate_times(
    batch: Bytes, header: BatchHeader, limit: int = DECOMPRESSED_LIMIT
) -> Iterator[tuple[int, int]]:
    """(offset, timestamp) of the records of one batch, without decoding the rest.

    Offsets must increase: otherwise a batch could repeat one record a million times in a kilobyte.
    """
    data = unpacked_data(batch, header, limit)
    append_time = header.max_timestamp if header.is_log_append_time else None
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    position = index = 0
    last = -1
    try:
        while index < header.record_count:
            length, position = read_varint(data, position)
            end = position + length
            if length < 0 or end > len(data):
                raise ValueError(f"its length of {length} bytes does not fit into the batch")
            timestamp, position = read_varint(data, position + 1)
            offset, position = read_varint(data, position)
            if offset <= last:
                raise ValueError(f"its offset {base_offset + offset} is not above the one before")
            last = offset
            yield base_offset + offset, base_timestamp + timestamp if append_time is None else append_time
            position = end
            index += 1
    except (IndexError, ValueError) as error:
        raise _bad_record(header, index, error) from None


def record_data(batch: Bytes, header: BatchHeader, limit: int = DECOMPRESSED_LIMIT) -> bytes:
    """The bytes after the header, decompressed."""
    return bytes(unpacked_data(batch, header, limit))


def unpacked_data(
    batch: Bytes, header: BatchHeader, limit: int = DECOMPRESSED_LIMIT, max_blocks: int = MAX_BLOCKS
) -> Buffer:
    """`record_data` without the final copy, for read-only use."""
    if header.length < MIN_LENGTH or header.size > len(batch):
        raise InvalidRecords(f"the batch header declares {header.size} bytes, but {len(batch)} were read")
    if header.record_count < 0:
        raise InvalidRecords(f"the batch header declares {header.record_count} records")
    try:
        return unpack(header.compression, memoryview(batch)[HEADER_SIZE : header.size], limit, max_blocks)
    except CompressionError as error:
        raise InvalidRecords(f"the records cannot be decompressed: {error}") from error


def _bad_record(header: BatchHeader, index: int, error: IndexError | ValueError) -> InvalidRecords:
    what = "truncated" if isinstance(error, IndexError) else str(error)
    text = f"record {index} of {header.record_count}: {what}"
    return InvalidRecords(text, [(index, text)])


def _read_record(
    data: bytes, position: int, header: BatchHeader, append_time: int | None, max_headers: int
) -> tuple[Record, int]:
    length, position = read_varint(data, position)
    end = position + length
    if length < 0 or end > len(data):
        raise ValueError(f"its length of {length} bytes does not fit into the batch")
    # The attributes byte is unused.
    timestamp_delta, position = read_varint(data, position + 1)
    offset_delta, position = read_varint(data, position)
    key, position = _read_nullable(data, position, end)
    value, position = _read_nullable(data, position, end)
    headers, position = read_headers(data, position, end, max_headers)
    if position != end:
        raise ValueError(f"its fields take {position - end + length} bytes, its length is {length}")
    timestamp = header.base_timestamp + timestamp_delta if append_time is None else append_time
    if not _MIN_TIMESTAMP <= timestamp <= _MAX_TIMESTAMP:
        raise ValueError(f"its timestamp {timestamp} does not fit into 64 bits")
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers), end


def _read_nullable(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(data, position)
    if length < 0:
        return None, position
    stop = position + length
    if stop > end:
        raise ValueError(f"a field of {length} bytes does not fit into the record")
    return data[position:stop], stop


def read_headers(
    data: bytes, position: int, end: int, limit: int = MAX_HEADERS
) -> tuple[tuple[Header, ...], int]:
    """The headers of a record and the position after them; ValueError or IndexError when they are malformed."""
    if data[position] == 0:  # the usual case
        return (), position + 1
    count, position = read_varint(data, position)
    if not 0 <= count <= end - position:
        raise ValueError(f"{count} headers do not fit into the record")
    if count > limit:
        raise ValueError(
            f"it has {count} headers; at most {limit} are allowed (brokers: barnabas.validate.max.headers)"
        )
    headers = []
    for _ in range(count):
        key, position = _read_nullable(data, position, end)
        if key is None:
            raise ValueError("a header has no key")
        value, position = _read_nullable(data, position, end)
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), position
