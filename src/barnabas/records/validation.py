"""Looking inside a produced batch: the checks and changes that need its records.

Most batches never come here (see "One produce request" in ARCHITECTURE.md). Compacted topics do, because
their records need keys; topics with a `compression.type` of their own do, because the broker compresses
anew; and all do with `barnabas.validate.records=all`. The texts of record errors follow Kafka's.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.errors import ErrorCode
from barnabas.files import Bytes
from barnabas.records.batch import COMPRESSION_MASK, NO_TIMESTAMP, BatchHeader
from barnabas.records.builder import assemble_batch
from barnabas.records.compression import DECOMPRESSED_LIMIT, Codec
from barnabas.records.record import InvalidRecords, Record, iterate_records, record_data

_LARGEST_INT64 = (1 << 63) - 1
_ERRORS_KEPT = 1000  # a small compressed batch can hold millions of bad records; after these we stop looking
_ERRORS_IN_TEXT = 3  # as many as Kafka names


class TimestampBounds(NamedTuple):
    """`message.timestamp.before.max.ms` and `message.timestamp.after.max.ms`, around the broker's now."""

    now_ms: int
    before_max_ms: int = _LARGEST_INT64
    after_max_ms: int = _LARGEST_INT64

    def allow(self, timestamp: int) -> bool:
        if timestamp == NO_TIMESTAMP:
            return True
        return self.now_ms - self.before_max_ms <= timestamp <= self.now_ms + self.after_max_ms


def validate_records(
    batch: Bytes,
    header: BatchHeader,
    *,
    require_keys: bool = False,
    timestamps: TimestampBounds | None = None,
    limit: int = DECOMPRESSED_LIMIT,
) -> int:
    """Check every record of a producer's batch; the largest of their timestamps.

    `timestamps` is None where they do not matter, because the topic has LogAppendTime. InvalidRecords
    carries INVALID_TIMESTAMP when a timestamp is out of bounds, and INVALID_RECORD for all else.
    """
    _check_header(header)
    largest = NO_TIMESTAMP
    errors: list[tuple[int, str]] = []
    code = ErrorCode.INVALID_RECORD
    for index, record in enumerate(iterate_records(batch, header, limit)):
        largest = max(largest, record.timestamp)
        if timestamps is not None and not timestamps.allow(record.timestamp):
            code = ErrorCode.INVALID_TIMESTAMP
            errors.append((index, _out_of_bounds(record, timestamps)))
        elif problem := _problem(record, header.base_offset + index, require_keys):
            errors.append((index, problem))
        if len(errors) == _ERRORS_KEPT:
            break
    if errors:
        raise _refusal(errors, code)
    return largest


def recompress(
    batch: Bytes,
    header: BatchHeader,
    codec: int,
    level: int | None = None,
    limit: int = DECOMPRESSED_LIMIT,
) -> bytearray:
    """The same records in another codec, for a topic whose `compression.type` is not the producer's.

    Record bytes, offsets and timestamps stay as they are; length, codec bits and CRC are new. The records
    are not looked at: `validate_records` comes first.
    """
    attributes = header.attributes & ~COMPRESSION_MASK | Codec(codec)
    data = record_data(batch, header, limit)
    return assemble_batch(header._replace(attributes=attributes), data, level)


def _check_header(header: BatchHeader) -> None:
    if header.record_count < 1 or header.last_offset_delta + 1 != header.record_count:
        raise InvalidRecords(
            f"a batch of {header.record_count} records says that its last one "
            f"has offset delta {header.last_offset_delta}"
        )
    if header.is_log_append_time:
        raise InvalidRecords(
            "a producer must not set the timestamp type to LogAppendTime: the topic's setting decides",
            code=ErrorCode.INVALID_TIMESTAMP,
        )


def _problem(record: Record, expected_offset: int, require_keys: bool) -> str | None:
    if record.offset != expected_offset:
        return f"The record has offset {record.offset} where {expected_offset} is expected in sequence."
    if require_keys and record.key is None:
        return "Compacted topic cannot accept message without key."
    return None


def _out_of_bounds(record: Record, bounds: TimestampBounds) -> str:
    earliest, latest = bounds.now_ms - bounds.before_max_ms, bounds.now_ms + bounds.after_max_ms
    return (
        f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. "
        f"The timestamp should be within [{earliest}, {latest}]"
    )


def _refusal(errors: list[tuple[int, str]], code: ErrorCode) -> InvalidRecords:
    first = "; ".join(f"record {index}: {text}" for index, text in errors[:_ERRORS_IN_TEXT])
    if code is ErrorCode.INVALID_TIMESTAMP:
        return InvalidRecords(f"One or more records have an invalid timestamp: {first}", errors, code)
    return InvalidRecords(f"One or more records have been rejected: {first}", errors, code)
