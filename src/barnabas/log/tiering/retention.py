"""Retention of a tiered log.

Total retention (`retention.ms`, `retention.bytes`) covers both tiers: remote segments, and local ones above the tiered
end. It raises the log start, and the remote writer deletes the remote segments below it. Only the leader does that,
as it knows the remote segments; followers follow its log start. Nothing expires until a new leader has read the
manifest: after a backfill, local records may be older than remote ones.

Local retention (`local.retention.*`) raises the local start. It covers only sealed segments below the high watermark
and below the tiered end in the checkpoint file (log/tiering/checkpoint.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from barnabas.config.topic import LogConfig
from barnabas.log.offsets import NOTHING_TIERED
from barnabas.log.rolling_log import RollingLog
from barnabas.log.segments.segment import Segment
from barnabas.log.tiering.remote_segments import RemoteSegment
from barnabas.records.batch import NO_TIMESTAMP

UNLIMITED = -1
AS_TOTAL = -2


class _RetainedSegment(NamedTuple):
    """A remote segment, or the part of a local one above the tiered end."""

    end: int
    size: int
    timestamp: int


def local_limits(config: LogConfig) -> tuple[int, int]:
    """(ms, bytes) of local retention. If copying is disabled, total retention applies, as in Kafka."""
    ms, size = config.local_retention_ms, config.local_retention_bytes
    if config.remote_log_copy_disable:
        ms = size = AS_TOTAL
    return (
        config.retention_ms if ms == AS_TOTAL else ms,
        config.retention_bytes if size == AS_TOTAL else size,
    )


def copies(config: LogConfig) -> bool:
    """True if sealed segments are copied to remote storage."""
    return config.remote_storage_enable and not config.remote_log_copy_disable


def may_be_copied(log: RollingLog, segments: Sequence[Segment], now_ms: int) -> bool:
    """True if the first of these segments, which include the active one, is beyond the copy lag (KIP-1241)."""
    config, (local_ms, local_bytes) = log.config, local_limits(log.config)
    lag_ms = local_ms if config.remote_copy_lag_ms == UNLIMITED else config.remote_copy_lag_ms
    lag_bytes = local_bytes if config.remote_copy_lag_bytes == UNLIMITED else config.remote_copy_lag_bytes
    if not (lag_ms and lag_bytes):
        return True
    if lag_bytes > 0 and sum(segment.size for segment in segments[1:]) >= lag_bytes:
        return True
    # As in Kafka, a timestamp in the future does not delay the copy.
    return lag_ms > 0 and not 0 <= now_ms - age_timestamp(log, segments[0], now_ms, None) < lag_ms


# -- total retention ----------------------------------------------------------------------------------


def expired_upto(log: RollingLog, now_ms: int, limit: int | None = None) -> int:
    """Log start by total retention; checks at most `limit` local segments."""
    config, start = log.config, log.offsets.start
    if log.remote is not None and not log.remote.is_known:
        return start
    excess = _total_bytes(log) - config.retention_bytes
    for end, size, timestamp in _all_segments(log, now_ms, limit):
        excess -= size
        is_old = config.retention_ms != UNLIMITED and now_ms - timestamp > config.retention_ms
        is_excess = config.retention_bytes != UNLIMITED and excess >= 0
        if end > log.high_watermark or not (is_old or is_excess):
            break
        start = end
    return start


def _remote(log: RollingLog) -> Iterator[RemoteSegment]:
    """Remote segments with offsets above the log start."""
    segments = log.remote.oldest() if log.remote is not None else iter(())
    return (segment for segment in segments if segment.end > log.offsets.start)


def _total_bytes(log: RollingLog) -> int:
    if log.config.retention_bytes == UNLIMITED:
        return 0
    remote = 0
    if log.remote is not None:
        below = (s.size for s in log.remote.oldest() if s.end <= log.offsets.start)
        remote = log.remote.size_bytes - sum(below)
    return remote + sum(size for _, size in above_tiered_end(log))


def _tiered_end(log: RollingLog) -> int:
    return max(log.offsets.tiered_end, log.remote.end if log.remote is not None else NOTHING_TIERED)


def above_tiered_end(log: RollingLog) -> Iterator[tuple[Segment, int]]:
    """Yield local segments above the tiered end, each with its bytes that are not remote."""
    tiered_end = _tiered_end(log)
    for segment in log.segments.since(tiered_end):
        copied = 0
        if segment.base_offset < tiered_end:  # boundary of an earlier leader: approximate
            copied = segment.offset_index.lookup(tiered_end - segment.base_offset)
        yield segment, segment.size - copied


def _all_segments(log: RollingLog, now_ms: int, limit: int | None) -> Iterator[_RetainedSegment]:
    for remote in _remote(log):
        yield _RetainedSegment(remote.end, remote.size, remote.largest_timestamp)
    for segment, size in islice(above_tiered_end(log), limit):
        if end := _end_of(log, segment):
            yield _RetainedSegment(end, size, age_timestamp(log, segment, now_ms, limit))


def _end_of(log: RollingLog, segment: Segment) -> int:
    """End offset of a segment; 0 for an active one without records above the tiered end."""
    if segment is log.active:
        return log.log_end_offset if segment.size and log.log_end_offset > _tiered_end(log) else 0
    return log.segments[log.segments.number_of(segment.base_offset) + 1].base_offset


def age_timestamp(log: RollingLog, segment: Segment, now_ms: int, limit: int | None) -> int:
    """Largest timestamp of a segment, for retention.

    If records have none, or one further in the future than the topic allows, the time of the last write is used; Kafka
    retains such a segment until the timestamp has passed. With a `limit`, a segment that needs a scan counts as
    new.
    """
    if limit is not None and segment is not log.active and not segment.knows_largest_timestamp():
        return now_ms
    timestamp, _ = segment.largest_timestamp
    is_possible = timestamp - now_ms <= log.config.message_timestamp_after_max_ms
    return timestamp if timestamp != NO_TIMESTAMP and is_possible else segment.modified_ms()


# -- local retention ----------------------------------------------------------------------------------


def leaves_disk_upto(log: RollingLog, now_ms: int, limit: int | None = None) -> int:
    """Local start by local retention; checks at most `limit` segments, never the active one, which is not copied."""
    limit_ms, limit_bytes = local_limits(log.config)
    offsets, excess = log.offsets, log.size_bytes - limit_bytes
    copied = min(offsets.tiered_end, log.tiered_checkpoint.end, offsets.high_watermark)
    start = offsets.local_start
    for segment, following in islice(pairwise(log.segments), limit):
        excess -= segment.size
        is_excess = limit_bytes != UNLIMITED and excess >= 0
        if following.base_offset > copied or not (
            is_excess or _is_old(log, segment, limit_ms, now_ms, limit)
        ):
            break
        start = max(start, following.base_offset)
    return start


def _is_old(log: RollingLog, segment: Segment, limit_ms: int, now_ms: int, limit: int | None) -> bool:
    return limit_ms != UNLIMITED and now_ms - age_timestamp(log, segment, now_ms, limit) > limit_ms


def _active_is_expired(log: RollingLog, now_ms: int) -> bool:
    """True if only the active segment is local, and local retention has expired it. Kafka also rolls it then, so that
    it can be copied and removed."""
    active, (limit_ms, _) = log.active, local_limits(log.config)
    is_last = log.offsets.local_start >= active.base_offset
    return is_last and bool(active.size) and _is_old(log, active, limit_ms, now_ms, None)


# -- both ---------------------------------------------------------------------------------------------


def move_starts(log: RollingLog, now_ms: int, limit: int | None = None) -> None:
    """Raise log start and local start of a tiered log by retention. The caller removes the segments."""
    if log.config.deletes and log.remote is not None:
        start = expired_upto(log, now_ms, limit)
        if start == log.log_end_offset and start > log.active.base_offset:
            log.roll(now_ms)
        log.advance_log_start(min(start, log.high_watermark))
    if log.config.deletes and log.config.remote_storage_enable:
        log.offsets.advance_local_start(leaves_disk_upto(log, now_ms, limit))
        if _active_is_expired(log, now_ms):
            log.roll(now_ms)


def is_due_for_copying(log: RollingLog, now_ms: int, roll_ms: int) -> bool:
    """True if the active segment of a tiered topic is older than `roll_ms`; only sealed segments are copied."""
    active = log.active
    return copies(log.config) and bool(active.size) and now_ms - active.created_ms >= roll_ms
