"""What a leader checks before it appends a batch of a client, without looking at the records.

A batch stays opaque, but its header must be possible: 81 bytes cannot hold two billion records, and a timestamp that no
clock shows would decide about rolls and retention. The codes are those of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from fastcrc.crc32 import iscsi as crc32c

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.topic import LogConfig
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
from barnabas.records.compression import HIGHEST_RATIO, Codec, begins_like
from barnabas.records.record import InvalidRecords
from barnabas.records.walking import MIN_RECORD

_NOT_FOR_CLIENTS = CONTROL_BIT | TRANSACTIONAL_BIT

_BEGINNING_END = HEADER_SIZE + 4
_BEGINNINGS = (b"", b"\x1f\x8b\x08\x00", b"\x82SNA", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd", b"", b"", b"")
"""What nearly all data of each codec begin with; others are looked at closely."""

_RATIOS = tuple(HIGHEST_RATIO.get(codec, 0) for codec in range(COMPRESSION_MASK + 1))

_new_header = BatchHeader._make
_unpack = HEADER.unpack_from


def checked_header(batch: memoryview, largest_data: int) -> BatchHeader:
    """The header of the one batch that these bytes must be, its checksum verified.

    `largest_data` is what a compressed batch may decompress to.
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
            f"the batch says it has {count} records, and offsets for {header.last_offset_delta + 1}"
        )
    if codec := header.attributes & COMPRESSION_MASK:
        if not is_plain_compressed(batch, codec, count, largest_data):
            _check_compressed(batch, header, largest_data)
    elif count * MIN_RECORD > size - HEADER_SIZE:
        raise _too_many_records(header, size - HEADER_SIZE)
    return header


def is_plain_compressed(batch: memoryview, attributes: int, count: int, largest_data: int) -> bool:
    """Do the attributes name a codec and nothing else, and can its data, by how they begin, hold so many records?"""
    least = count * MIN_RECORD
    return (
        0 < attributes <= COMPRESSION_MASK
        and least <= (len(batch) - HEADER_SIZE) * _RATIOS[attributes]
        and least <= largest_data
        and batch[HEADER_SIZE:_BEGINNING_END] == _BEGINNINGS[attributes]
    )


def _check_compressed(batch: memoryview, header: BatchHeader, largest_data: int) -> None:
    """Neither garbage with the name of a codec, nor more records than can come out."""
    codec = header.compression
    data = batch[HEADER_SIZE:]
    if not begins_like(codec, data):
        name = Codec(codec).name.lower() if codec in HIGHEST_RATIO else f"codec {codec}, which there is not"
        raise _invalid(f"the records of the batch are not compressed with {name}, as its attributes say")
    most = min(len(data) * HIGHEST_RATIO[codec], largest_data)
    if header.record_count * MIN_RECORD > most:
        raise _too_many_records(header, most)


def _too_many_records(header: BatchHeader, data_bytes: int) -> KafkaError:
    return _invalid(
        f"the batch says it has {header.record_count} records, and its data can hold "
        f"{data_bytes // MIN_RECORD} at most"
    )


def check_from_client(header: BatchHeader) -> None:
    """What a client may not write, or not outside of a transaction."""
    if header.attributes & _NOT_FOR_CLIENTS:
        if header.is_transactional and not header.is_control:
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "transactional records in a request without a transactional id",
            )
        raise InvalidRecords("clients are not allowed to write control records")
    _check_numbers(header)


def check_in_transaction(header: BatchHeader) -> None:
    """The same for a batch whose partition is known to be part of the producer's transaction."""
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
    """Timestamps that the producer chose, on a topic that keeps them: all that no moment can make right."""
    if header.attributes & TIMESTAMP_TYPE_BIT:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP, "the timestamp type LogAppendTime is for the broker to set"
        )
    earliest = min(header.base_timestamp, header.max_timestamp)
    if earliest < NO_TIMESTAMP:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP, f"timestamp {earliest} is before 1970; -1 stands for no timestamp"
        )


def too_far_ahead(header: BatchHeader) -> KafkaError:
    """Why a batch is refused whose records are not to blame, or not known."""
    return KafkaError(
        ErrorCode.INVALID_TIMESTAMP,
        f"timestamp {max(header.base_timestamp, header.max_timestamp)} is further ahead of the broker's clock than "
        "message.timestamp.after.max.ms allows",
    )


def check_follows(batch: memoryview, header: BatchHeader, log_end: int) -> None:
    """What a follower checks of a batch that its leader sent."""
    if header.base_offset < log_end:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"the leader sent offset {header.base_offset} to a log that already ends at {log_end}",
        )
    if crc32c(batch[CRC_START:]) != header.crc:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} was damaged on its way"
        )


def too_large(size: int, config: LogConfig) -> KafkaError:
    """Why a batch of this size is refused."""
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
        return _invalid(f"a batch of {length + LOG_OVERHEAD} bytes, of which {size} were sent")
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are too few for a batch")


def _wrong_size_or_magic(batch: memoryview, header: BatchHeader, size: int) -> KafkaError:
    if header.magic in (0, 1):
        return _old_format(header.magic)
    if header.magic != MAGIC:
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch of magic {header.magic}")
    if header.length < MIN_LENGTH:
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch of length {header.length}")
    if header.length + LOG_OVERHEAD > size:
        return _invalid(f"a batch of {header.size} bytes, of which {size} were sent")
    if crc32c(batch[CRC_START : header.size]) != header.crc:
        return _wrong_checksum()
    return _invalid("a produce request may hold exactly one batch for each partition")


def _old_format(magic: int) -> KafkaError:
    return _invalid(f"message format {magic} is no longer supported, only format {MAGIC}")


def _wrong_checksum() -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, "the checksum of the batch is wrong")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
