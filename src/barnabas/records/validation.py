"""Looking inside a produced batch: the checks and changes that need its records.

Most batches never come here (see "One produce request" in ARCHITECTURE.md). Compacted topics do, because
their records need keys; topics with a `compression.type` of their own do, because the broker compresses
again; and all do with `barnabas.validate.records=all`. The texts of record errors follow Kafka's.

Records are walked through (`records/walking.py`), none is built but those that break a rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.common.errors import ErrorCode
from barnabas.common.files import Bytes
from barnabas.records.batch import COMPRESSION_MASK, NO_TIMESTAMP, BatchHeader
from barnabas.records.builder import assemble_batch
from barnabas.records.compression import DECOMPRESSED_LIMIT, Codec
from barnabas.records.record import (
    Buffer,
    InvalidRecords,
    Record,
    check_end,
    read_record,
    unpacked_data,
)
from barnabas.records.walking import Place, Rules, walk

_LARGEST_INT64 = (1 << 63) - 1
_SMALLEST_INT64 = -(1 << 63)
_STEP = 500  # records between two breaths
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
        return self.earliest <= timestamp <= self.latest

    @property
    def earliest(self) -> int:
        return self.now_ms - self.before_max_ms

    @property
    def latest(self) -> int:
        return self.now_ms + self.after_max_ms


def validate_records(
    batch: Bytes,
    header: BatchHeader,
    *,
    require_keys: bool = False,
    timestamps: TimestampBounds | None = None,
    limit: int = DECOMPRESSED_LIMIT,
    most_headers: int = _LARGEST_INT64,
) -> int:
    """Check every record of a producer's batch; the largest of their timestamps.

    `timestamps` is None where they do not matter, because the topic has LogAppendTime. InvalidRecords
    carries INVALID_TIMESTAMP when a timestamp is out of bounds, and INVALID_RECORD for all else.
    """
    _check_header(header)
    data = unpacked_data(batch, header, limit)
    return validate_data(
        data, header, require_keys=require_keys, timestamps=timestamps, most_headers=most_headers
    )


def validate_data(
    data: Buffer,
    header: BatchHeader,
    *,
    require_keys: bool = False,
    timestamps: TimestampBounds | None = None,
    most_headers: int = _LARGEST_INT64,
    breathe: Callable[[], None] | None = None,
) -> int:
    """The same for records that are decompressed already. `breathe` is called often, so that others have their turn."""
    _check_header(header)
    rules = _rules(header, require_keys, timestamps, most_headers)
    count = header.record_count
    step = count if breathe is None else _STEP
    errors = _Errors()
    place = Place()
    while place.number < count and not errors.are_enough:
        stop = min(place.number + step, count)
        place = walk(data, place, stop, rules)
        if place.number < stop:
            place = _look_closely(data, place, header, rules, timestamps, errors)
        if breathe is not None:
            breathe()
    if not errors.are_enough:
        check_end(data, place.position, header)
    errors.refuse_if_any()
    return place.largest


def _rules(
    header: BatchHeader, require_keys: bool, timestamps: TimestampBounds | None, most_headers: int
) -> Rules:
    if timestamps is None:
        timestamps = TimestampBounds(0)
    earliest = min(max(timestamps.earliest, _SMALLEST_INT64), _LARGEST_INT64)
    latest = min(max(timestamps.latest, _SMALLEST_INT64), _LARGEST_INT64)
    return Rules(header.base_timestamp, earliest, latest, require_keys, most_headers)


def _look_closely(
    data: Buffer,
    place: Place,
    header: BatchHeader,
    rules: Rules,
    timestamps: TimestampBounds | None,
    errors: _Errors,
) -> Place:
    """Say what is wrong with the record at a place, and go on behind it."""
    index, position, largest = place
    record, position = read_record(data, position, index, header, rules.most_headers)
    if timestamps is not None and not timestamps.allow(record.timestamp):
        errors.code = ErrorCode.INVALID_TIMESTAMP
        errors.found.append((index, _out_of_bounds(record, timestamps)))
    elif problem := _problem(record, header.base_offset + index, rules.require_keys):
        errors.found.append((index, problem))
    return Place(index + 1, position, max(largest, record.timestamp))


class _Errors:
    """What is wrong with single records of a batch, as far as it was collected."""

    def __init__(self) -> None:
        self.found: list[tuple[int, str]] = []
        self.code = ErrorCode.INVALID_RECORD

    @property
    def are_enough(self) -> bool:
        return len(self.found) == _ERRORS_KEPT

    def refuse_if_any(self) -> None:
        if self.found:
            raise _refusal(self.found, self.code)


def repack(data: Buffer, header: BatchHeader, codec: int, level: int | None = None) -> bytearray:
    """Decompressed records in another codec, for a topic whose `compression.type` is not the producer's.

    Record bytes, offsets and timestamps stay as they are; length, codec bits and CRC are new. The records are not
    looked at: `validate_records` comes first.
    """
    attributes = header.attributes & ~COMPRESSION_MASK | Codec(codec)
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
    return (
        f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. "
        f"The timestamp should be within [{bounds.earliest}, {bounds.latest}]"
    )


def _refusal(errors: list[tuple[int, str]], code: ErrorCode) -> InvalidRecords:
    first = "; ".join(f"record {index}: {text}" for index, text in errors[:_ERRORS_IN_TEXT])
    if code is ErrorCode.INVALID_TIMESTAMP:
        return InvalidRecords(f"One or more records have an invalid timestamp: {first}", errors, code)
    return InvalidRecords(f"One or more records have been rejected: {first}", errors, code)
