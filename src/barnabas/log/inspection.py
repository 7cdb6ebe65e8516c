"""The slow way into the log, for topics whose settings ask to look inside or to change a batch."""

from __future__ import annotations

from barnabas.config.topic import LogConfig
from barnabas.log.checks import check_create_time
from barnabas.records.batch import BatchHeader, read_header, stamp_log_append_time
from barnabas.records.compression import CODEC_BY_NAME, Codec
from barnabas.records.delays import check_delays
from barnabas.records.validation import TimestampBounds, recompress, validate_records

PRODUCERS_CODEC = "producer"
LOG_APPEND_TIME = "LogAppendTime"
NO_LIMIT = (1 << 63) - 1


def is_needed(config: LogConfig) -> bool:
    """Do these settings need more than the header of a batch as it comes?"""
    return (
        _looks_inside(config)
        or config.compression_type != PRODUCERS_CODEC
        or config.message_timestamp_type == LOG_APPEND_TIME
        or config.barnabas_delay_enable
    )


def inspect(
    batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int, *, trusted: bool = False
) -> tuple[memoryview, BatchHeader]:
    """The batch as it shall be appended, and its header; raises KafkaError when it is refused."""
    by_broker = config.message_timestamp_type == LOG_APPEND_TIME
    if not by_broker:
        check_create_time(batch, header, now_ms + config.message_timestamp_after_max_ms)
    if not trusted and _looks_inside(config):
        validate_records(
            batch,
            header,
            require_keys=config.compacted,
            timestamps=None if by_broker else _bounds(config, now_ms),
        )
    if not trusted and config.barnabas_delay_enable:
        has_end = config.deletes and config.retention_ms >= 0
        check_delays(batch, header, now_ms, config.retention_ms if has_end else None)
    batch, header = _compressed_as_configured(batch, header, config)
    if by_broker:
        stamp_log_append_time(batch, 0, header.size, now_ms)
        header = read_header(batch)
    return batch, header


def _looks_inside(config: LogConfig) -> bool:
    return (
        config.compacted
        or config.barnabas_validate_records == "all"
        or config.message_timestamp_before_max_ms != NO_LIMIT
    )


def _bounds(config: LogConfig, now_ms: int) -> TimestampBounds:
    return TimestampBounds(
        now_ms, config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    )


def _compressed_as_configured(
    batch: memoryview, header: BatchHeader, config: LogConfig
) -> tuple[memoryview, BatchHeader]:
    if config.compression_type == PRODUCERS_CODEC:
        return batch, header
    codec = CODEC_BY_NAME[config.compression_type]
    if header.compression == codec:
        return batch, header
    if not _looks_inside(config):
        validate_records(batch, header)
    fresh = memoryview(recompress(batch, header, codec, _level(config, codec)))
    return fresh, read_header(fresh)


def _level(config: LogConfig, codec: Codec) -> int | None:
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return levels.get(codec)
