"""Validates the records of a produced batch.

Most batches skip this (see "One produce request" in ARCHITECTURE.md). Compacted topics need it because their
records need keys, topics with a `compression.type` because the broker recompresses, and
`barnabas.validate.records=all` enables it for all. Error messages of records follow Kafka's.

Valid records are only scanned (`records/walking.py`); a Record is built for invalid ones.
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
from barnabas.records.walking import RecordRules, ScanState, walk

_MAX_INT64 = (1 << 63) - 1
_MIN_INT64 = -(1 << 63)
_STEP = 500  # records between two calls of `breathe`
_ERRORS_KEPT = 1000  # a small compressed batch can hold millions of invalid records: stop after these
_ERRORS_IN_TEXT = 3  # as in Kafka


class TimestampBounds(NamedTuple):
    """`message.timestamp.before.max.ms` and `message.timestamp.after.max.ms`, relative to the broker's clock."""

    now_ms: int
    before_max_ms: int = _MAX_INT64
    after_max_ms: int = _MAX_INT64

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
    max_headers: int = _MAX_INT64,
) -> int:
    """Validate every record of a producer's batch; returns the largest timestamp.

    `timestamps` is None if the topic uses LogAppendTime. InvalidRecords carries INVALID_TIMESTAMP for a timestamp
    out of bounds, INVALID_RECORD otherwise.
    """
    _check_header(header)
    data = unpacked_data(batch, header, limit)
    return validate_data(
        data, header, require_keys=require_keys, timestamps=timestamps, max_headers=max_headers
    )


def validate_data(
    data: Buffer,
    header: BatchHeader,
    *,
    require_keys: bool = False,
    timestamps: TimestampBounds | None = None,
    max_headers: int = _MAX_INT64,
    breathe: Callable[[], None] | None = None,
) -> int:
    """`validate_records` for decompressed records. `breathe` is called every few hundred records, to yield."""
    _check_header(header)
    rules = _rules(header, require_keys, timestamps, max_headers)
    count = header.record_count
    step = count if breathe is None else _STEP
    errors = _Errors()
    state = ScanState()
    while state.number < count and not errors.are_enough:
        stop = min(state.number + step, count)
        state = walk(data, state, stop, rules)
        if state.number < stop:
            state = _look_closely(data, state, header, rules, timestamps, errors)
        if breathe is not None:
            breathe()
    if not errors.are_enough:
        check_end(data, state.position, header)
    errors.refuse_if_any()
    return state.largest


def _rules(
    header: BatchHeader, require_keys: bool, timestamps: TimestampBounds | None, max_headers: int
) -> RecordRules:
    if timestamps is None:
        timestamps = TimestampBounds(0)
    earliest = min(max(timestamps.earliest, _MIN_INT64), _MAX_INT64)
    latest = min(max(timestamps.latest, _MIN_INT64), _MAX_INT64)
    return RecordRules(header.base_timestamp, earliest, latest, require_keys, max_headers)


def _look_closely(
    data: Buffer,
    state: ScanState,
    header: BatchHeader,
    rules: RecordRules,
    timestamps: TimestampBounds | None,
    errors: _Errors,
) -> ScanState:
    """Record the error of the record at the scan position, and continue after it."""
    index, position, largest = state
    record, position = read_record(data, position, index, header, rules.max_headers)
    if timestamps is not None and not timestamps.allow(record.timestamp):
        errors.code = ErrorCode.INVALID_TIMESTAMP
        errors.found.append((index, _out_of_bounds(record, timestamps)))
    elif problem := _problem(record, header.base_offset + index, rules.require_keys):
        errors.found.append((index, problem))
    return ScanState(index + 1, position, max(largest, record.timestamp))


class _Errors:
    """Errors of single records of a batch, up to a limit."""

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
    """Recompress records for a topic whose `compression.type` differs from the producer's.

    Record bytes, offsets and timestamps are unchanged; length, codec bits and CRC are new. The records must have
    been validated before.
    """
    attributes = header.attributes & ~COMPRESSION_MASK | Codec(codec)
    return assemble_batch(header._replace(attributes=attributes), data, level)


def _check_header(header: BatchHeader) -> None:
    if header.record_count < 1 or header.last_offset_delta + 1 != header.record_count:
        raise InvalidRecords(
            f"a batch of {header.record_count} records declares "
            f"a last offset delta of {header.last_offset_delta}"
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
