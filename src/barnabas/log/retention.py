"""Removal of the oldest segments: by age, by size, and below the log start."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice, takewhile

from barnabas.log import names
from barnabas.log.failures import DISK_FULL
from barnabas.log.rolling_log import RollingLog
from barnabas.log.segments.segment import Segment
from barnabas.log.tiering.retention import UNLIMITED, age_timestamp, local_limits, move_starts


def apply_retention(log: RollingLog, now_ms: int, limit: int | None = None) -> list[Segment]:
    """Remove expired segments, oldest first, and at most `limit` of them.

    The log start is raised before segments are removed, so the log is consistent between two calls.
    """
    if log.is_tiered:
        move_starts(log, now_ms, limit)
    count = count_deletable(log, now_ms, limit)
    if count == len(log.segments):
        log.roll(now_ms)
    removed = log.segments[:count]
    if removed:
        start = log.segments[count].base_offset
        if not log.is_tiered:
            log.advance_log_start(min(start, log.high_watermark))
        for segment in removed:
            retire(log, segment, now_ms)
        log.snapshots.keep_only(offset for offset in log.snapshots.offsets if offset >= start)
    return removed


def retire(log: RollingLog, segment: Segment, now_ms: int) -> None:
    """Remove a segment from the log: its files are renamed now and deleted later, as a fetch may still read them."""
    due_ms = now_ms + log.config.file_delete_delay_ms
    for path in segment.retire():
        _rename_deleted(log, path, due_ms)
    log.segments.remove(segment)
    # Synced with the next flush: below the recovery point, recovery would trust a segment that reappears after a crash.
    log.unsynced.add(log.folder)


def _rename_deleted(log: RollingLog, path: str, due_ms: int) -> None:
    try:
        log.fs.rename(path, path + names.DELETED)
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        log.fs.remove(path)  # the disk is too full for a rename: delete immediately
    else:
        log.garbage.append((due_ms, path + names.DELETED))


def ages_to_learn(log: RollingLog, limit: int) -> list[Segment]:
    """Oldest sealed segments whose largest timestamp is only known after a scan.

    `delete_old_segments` with a limit does not remove them.
    """
    config = log.config
    limit_ms = local_limits(config)[0] if log.is_tiered else config.retention_ms
    if not config.deletes or (limit_ms == UNLIMITED and config.retention_ms == UNLIMITED):
        return []
    unknown = takewhile(lambda segment: not segment.knows_largest_timestamp(), log.segments[:-1][:limit])
    return list(unknown)


def count_deletable(log: RollingLog, now_ms: int, limit: int | None = None) -> int:
    """Number of expired segments, from the oldest on; at most `limit`. If all are, the caller rolls the active one."""
    count = _below_log_start(log)
    if log.config.deletes and not log.is_tiered:
        count = max(count, _too_old(log, now_ms, limit), _too_large(log, limit))
    return count if limit is None else min(count, limit)


def _below_log_start(log: RollingLog) -> int:
    start = log.offsets.local_start
    return log.segments.number_of(min(start, log.tiered_checkpoint.covers) if log.is_tiered else start)


def _too_old(log: RollingLog, now_ms: int, maximum: int | None) -> int:
    limit = log.config.retention_ms
    if limit == UNLIMITED:
        return 0

    def is_too_old(segment: Segment) -> bool:
        return now_ms - age_timestamp(log, segment, now_ms, maximum) > limit

    return _count_while(log, is_too_old, maximum)


def _too_large(log: RollingLog, maximum: int | None) -> int:
    limit = log.config.retention_bytes
    if limit == UNLIMITED:
        return 0
    excess = log.size_bytes - limit

    def is_excess(segment: Segment) -> bool:
        nonlocal excess
        excess -= segment.size
        return excess >= 0

    return _count_while(log, is_excess, maximum)


def _count_while(log: RollingLog, is_expired: Callable[[Segment], bool], limit: int | None) -> int:
    """Count the oldest segments that are expired, below the high watermark, and not an empty active segment."""
    segments, count = log.segments, 0
    for segment in islice(segments, limit):
        end = segments[count + 1].base_offset if segment is not log.active else log.log_end_offset
        if (
            end > log.high_watermark
            or (segment is log.active and not segment.size)
            or not is_expired(segment)
        ):
            break
        count += 1
    return count
