"""Validation and conversion of batches: for topics whose config requires it, and for unusual timestamps.

Slow work must not run on the event loop: there `inspect` raises `InspectionRequiredError`. The caller then copies the
batch, calls `inspect` again in a thread, and appends with the result, which is valid only for the same topic config.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.config.topic import LogConfig
from barnabas.log.checks import check_create_time, too_far_ahead, too_large
from barnabas.records import (
    Buffer,
    InvalidRecords,
    TimestampBounds,
    enable_compiled,
    repack,
    unpacked_data,
    validate_data,
)
from barnabas.records.batch import HEADER_SIZE, BatchHeader, read_header
from barnabas.records.compression import CODEC_BY_NAME, Codec
from barnabas.records.delays import check_delays

PRODUCERS_CODEC = "producer"
LOG_APPEND_TIME = "LogAppendTime"
NO_LIMIT = (1 << 63) - 1

SHORT_DATA = 128 * 1024
"""Limit of bytes inspected on the event loop: 1 ms for records of 100 bytes, 20 ms for records with only headers."""
SHORT_COUNT = 2000


class InspectionRequiredError(Exception):
    """Inspection of the batch is too slow for the event loop."""

    def __init__(self, header: BatchHeader, config: LogConfig) -> None:
        super().__init__(header)
        self.header = header
        self.config = config


class Inspected(NamedTuple):
    """The batch to append, and the config it was inspected with."""

    batch: memoryview
    header: BatchHeader
    config: LogConfig


def is_needed(config: LogConfig) -> bool:
    """True if the config requires parsing or changing batches."""
    return (
        _parses_records(config)
        or config.compression_type != PRODUCERS_CODEC
        or config.message_timestamp_type == LOG_APPEND_TIME
    )


def prepare(config: LogConfig) -> None:
    """Request the compiled validation if the config validates every record."""
    if config.barnabas_validate_records == "all":
        enable_compiled()


def largest_data(config: LogConfig) -> int:
    """Limit of the decompressed size of a batch."""
    return max(config.barnabas_validate_max_bytes, 2 * config.max_message_bytes)


def inspect(
    batch: memoryview,
    header: BatchHeader,
    config: LogConfig,
    now_ms: int,
    *,
    trusted: bool = False,
    at_once: bool = False,
    breathe: Callable[[], None] | None = None,
) -> Inspected:
    """Return the batch to append. Raise KafkaError if it is refused, InspectionRequiredError if `at_once` is too slow.

    `breathe` is called regularly during validation, so that other threads can run.
    """
    parses = _parses_records(config) and not trusted
    bounds = None if config.message_timestamp_type == LOG_APPEND_TIME else _bounds(config, now_ms)
    codec = _other_codec(header, config)
    is_ahead = bounds is not None and max(header.base_timestamp, header.max_timestamp) > bounds.latest
    if bounds is not None:
        check_create_time(header)
    if not parses and codec is None and not is_ahead:
        return Inspected(batch, header, config)
    data = _data(batch, header, config, at_once)
    if is_ahead:
        assert bounds is not None
        _refuse_ahead(data, header, config, bounds, breathe)
    if parses or not trusted:
        _check_records(data, header, config, bounds if parses else None, breathe)
    if not trusted and config.barnabas_delay_enable:
        has_end = config.deletes and config.retention_ms >= 0
        check_delays(data, header, now_ms, config.retention_ms if has_end else None, breathe)
    if codec is not None:
        if codec is Codec.NONE and len(data) + HEADER_SIZE > config.max_message_bytes:
            raise too_large(len(data) + HEADER_SIZE, config)  # before making a second copy
        batch = memoryview(repack(data, header, codec, _level(config, codec)))
        header = read_header(batch)
    return Inspected(batch, header, config)


def _parses_records(config: LogConfig) -> bool:
    return (
        config.compacted
        or config.barnabas_validate_records == "all"
        or config.message_timestamp_before_max_ms != NO_LIMIT
        or config.barnabas_delay_enable
    )


def _bounds(config: LogConfig, now_ms: int) -> TimestampBounds:
    return TimestampBounds(
        now_ms, config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    )


def _other_codec(header: BatchHeader, config: LogConfig) -> Codec | None:
    """Codec that the batch has to be recompressed with; None if it has the right one."""
    if config.compression_type == PRODUCERS_CODEC:
        return None
    codec = CODEC_BY_NAME[config.compression_type]
    return None if header.compression == codec else codec


def _data(batch: memoryview, header: BatchHeader, config: LogConfig, at_once: bool) -> Buffer:
    """Return the decompressed records."""
    if not at_once:
        return _unpacked(batch, header, config)
    if len(batch) - HEADER_SIZE > SHORT_DATA or header.record_count > SHORT_COUNT:
        raise InspectionRequiredError(header, config)
    try:
        return unpacked_data(batch, header, SHORT_DATA, config.barnabas_validate_max_blocks)
    except InvalidRecords:
        # Too long, or invalid: the inspection in a thread finds out.
        raise InspectionRequiredError(header, config) from None


def _unpacked(batch: memoryview, header: BatchHeader, config: LogConfig) -> Buffer:
    limit = largest_data(config)
    try:
        return unpacked_data(batch, header, limit, config.barnabas_validate_max_blocks)
    except InvalidRecords as error:
        if str(limit) in error.message:
            raise InvalidRecords(f"{error.message}; barnabas.validate.max.bytes sets the limit") from error
        raise


def _refuse_ahead(
    data: Buffer,
    header: BatchHeader,
    config: LogConfig,
    bounds: TimestampBounds,
    breathe: Callable[[], None] | None,
) -> None:
    """Raise KafkaError for timestamps too far in the future; parse the records to report which ones."""
    validate_data(
        data,
        header,
        timestamps=TimestampBounds(bounds.latest, after_max_ms=0),
        max_headers=config.barnabas_validate_max_headers,
        breathe=breathe,
    )
    raise too_far_ahead(header)


def _check_records(
    data: Buffer,
    header: BatchHeader,
    config: LogConfig,
    bounds: TimestampBounds | None,
    breathe: Callable[[], None] | None,
) -> None:
    validate_data(
        data,
        header,
        require_keys=config.compacted,
        timestamps=bounds,
        max_headers=config.barnabas_validate_max_headers,
        breathe=breathe,
    )


def _level(config: LogConfig, codec: Codec) -> int | None:
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return levels.get(codec)
