"""Checks of a batch's header before it is appended; the records are not parsed.

The header must be plausible: 81 bytes cannot have two billion records, and an impossible timestamp would affect rolls
and retention. The error codes are those of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from fastcrc.crc32 import iscsi as crc32c

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.topic import LogConfig
from barnabas.records import MIN_RECORD, InvalidRecords
from barnabas.records.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    MIN_LENGTH,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from barnabas.records.compression import HIGHEST_RATIO, Codec, has_magic

_NOT_FOR_CLIENTS = CONTROL_BIT | TRANSACTIONAL_BIT

_MAGIC_END = HEADER_SIZE + 4
_CODEC_MAGIC = (b"", b"\x1f\x8b\x08\x00", b"\x82SNA", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd", b"", b"", b"")
"""First bytes of nearly all data of each codec; other data are checked in detail."""

_RATIOS = tuple(HIGHEST_RATIO.get(codec, 0) for codec in range(COMPRESSION_MASK + 1))

_new_header = BatchHeader._make
_unpack = HEADER.unpack_from


def checked_header(batch: memoryview, largest_data: int) -> BatchHeader:
    """Return the header of the single batch in these bytes, with its CRC checked; raise KafkaError if it is invalid.

    `largest_data` limits the decompressed size.
    """
    size = len(batch)
    if size < HEADER_SIZE:
        raise _too_short(batch, size)
    header = _new_header(_unpack(batch))
    if header.magic != MAGIC or header.length + LOG_OVERHEAD != size:
        raise _wrong_size_or_magic(batch, header, size)
    if crc32c(batch[CRC_START:]) != header.crc:
        raise _wrong_checksum()
    count = header.record_count
    if count != header.last_offset_delta + 1 or count <= 0:
        raise _invalid(
            f"the batch header has {count} records, but offsets for {header.last_offset_delta + 1}"
        )
    if codec := header.attributes & COMPRESSION_MASK:
        if not is_plain_compressed(batch, codec, count, largest_data):
            _check_compressed(batch, header, largest_data)
    elif count * MIN_RECORD > size - HEADER_SIZE:
        raise _too_many_records(header, size - HEADER_SIZE)
    return header


def is_plain_compressed(batch: memoryview, attributes: int, count: int, largest_data: int) -> bool:
    """True if the attributes have only a codec, the data start as usual for it, and `count` records can fit."""
    min_size = count * MIN_RECORD
    return (
        0 < attributes <= COMPRESSION_MASK
        and min_size <= (len(batch) - HEADER_SIZE) * _RATIOS[attributes]
        and min_size <= largest_data
        and batch[HEADER_SIZE:_MAGIC_END] == _CODEC_MAGIC[attributes]
    )


def _check_compressed(batch: memoryview, header: BatchHeader, largest_data: int) -> None:
    """Raise KafkaError if the data are not of the codec, or cannot contain that many records."""
    codec = header.compression
    data = batch[HEADER_SIZE:]
    if not has_magic(codec, data):
        if codec not in HIGHEST_RATIO:
            raise _invalid(f"unknown compression codec {codec} in the attributes of the batch")
        name = Codec(codec).name.lower()
        raise _invalid(
            f"the attributes of the batch have codec {name}, but its records are not compressed with it"
        )
    max_bytes = min(len(data) * HIGHEST_RATIO[codec], largest_data)
    if header.record_count * MIN_RECORD > max_bytes:
        raise _too_many_records(header, max_bytes)


def _too_many_records(header: BatchHeader, data_bytes: int) -> KafkaError:
    return _invalid(
        f"the batch header has {header.record_count} records, but its data can contain at most "
        f"{data_bytes // MIN_RECORD}"
    )


def check_from_client(header: BatchHeader) -> None:
    """Raise KafkaError for a batch that clients may not write, or only in a transaction."""
    if header.attributes & _NOT_FOR_CLIENTS:
        if header.is_transactional and not header.is_control:
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "transactional records in a request without a transactional id",
            )
        raise InvalidRecords("clients are not allowed to write control records")
    _check_numbers(header)


def check_in_transaction(header: BatchHeader) -> None:
    """Like `check_from_client`, for a partition that is verified to be part of the producer's transaction."""
    if header.is_control:
        raise _invalid("clients are not allowed to write control records")
    if header.producer_id < 0 and header.is_transactional:
        raise _invalid("a transactional batch without a producer id")
    _check_numbers(header)


def _check_numbers(header: BatchHeader) -> None:
    if header.base_offset:
        raise _invalid(f"the base offset of a produced batch must be 0, not {header.base_offset}")
    if header.producer_id >= 0:
        if header.base_sequence < 0:
            raise _invalid(f"sequence {header.base_sequence} in a batch of producer {header.producer_id}")
        if header.producer_epoch < 0:
            raise _invalid(f"epoch {header.producer_epoch} in a batch of producer {header.producer_id}")


def check_create_time(header: BatchHeader) -> None:
    """Raise KafkaError for timestamps that are invalid at any time, on a topic with CreateTime."""
    if header.attributes & TIMESTAMP_TYPE_BIT:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP, "only the broker may set the timestamp type LogAppendTime"
        )
    earliest = min(header.base_timestamp, header.max_timestamp)
    if earliest < NO_TIMESTAMP:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP, f"timestamp {earliest} is negative; use -1 for no timestamp"
        )


def too_far_ahead(header: BatchHeader) -> KafkaError:
    """Error for a batch whose header has a timestamp too far in the future."""
    return KafkaError(
        ErrorCode.INVALID_TIMESTAMP,
        f"timestamp {max(header.base_timestamp, header.max_timestamp)} is further ahead of the broker's clock than "
        "message.timestamp.after.max.ms allows",
    )


def check_follows(batch: memoryview, header: BatchHeader, log_end: int) -> None:
    """Raise KafkaError if a batch from the leader does not continue the log, or is corrupt."""
    if header.base_offset < log_end:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"the leader sent offset {header.base_offset} to a log that already ends at {log_end}",
        )
    if crc32c(batch[CRC_START:]) != header.crc:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} has a wrong checksum"
        )


def too_large(size: int, config: LogConfig) -> KafkaError:
    """Error for a batch that exceeds a size limit."""
    if size > config.max_message_bytes:
        return KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size} bytes; max.message.bytes allows {config.max_message_bytes}",
        )
    return KafkaError(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"a batch of {size} bytes does not fit into a segment of {config.segment_bytes} bytes",
    )


def _too_short(batch: memoryview, size: int) -> KafkaError:
    if not size:
        return _invalid("the record set is empty")
    if size > MAGIC_POSITION and batch[MAGIC_POSITION] < MAGIC:
        return _old_format(batch[MAGIC_POSITION])
    length = int.from_bytes(batch[8:LOG_OVERHEAD], "big", signed=True)
    if size >= LOG_OVERHEAD and length + LOG_OVERHEAD > size:
        return _invalid(f"a batch of {length + LOG_OVERHEAD} bytes, but only {size} were sent")
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are too short for a batch")


def _wrong_size_or_magic(batch: memoryview, header: BatchHeader, size: int) -> KafkaError:
    if header.magic in (0, 1):
        return _old_format(header.magic)
    if header.magic != MAGIC:
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"unsupported magic {header.magic}; expected {MAGIC}")
    if header.length < MIN_LENGTH:
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"invalid batch length {header.length}")
    if header.length + LOG_OVERHEAD > size:
        return _invalid(f"a batch of {header.size} bytes, but only {size} were sent")
    if crc32c(batch[CRC_START : header.size]) != header.crc:
        return _wrong_checksum()
    return _invalid("a produce request must have exactly one batch per partition")


def _old_format(magic: int) -> KafkaError:
    return _invalid(f"message format {magic} is no longer supported; use format {MAGIC}")


def _wrong_checksum() -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, "the checksum of the batch is wrong")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
