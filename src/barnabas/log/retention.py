"""Which of the oldest segments may go: by age, by size, and because the log starts above them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from barnabas.log import names
from barnabas.log.failures import DISK_FULL
from barnabas.log.segments.segment import Segment
from barnabas.log.tiering.retention import UNLIMITED, age_timestamp, local_limits, move_starts

if TYPE_CHECKING:
    from barnabas.log.durable_log import DurableLog


def apply_retention(log: DurableLog, now_ms: int, most: int | None = None) -> list[Segment]:
    """Remove the segments that are no longer wanted, the oldest first, and at most `most` of them.

    The log start is moved before a segment goes, so that between two calls the log is as it always is.
    """
    if log.is_tiered:
        move_starts(log, now_ms, most)
    count = count_deletable(log, now_ms, most)
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


def retire(log: DurableLog, segment: Segment, now_ms: int) -> None:
    """Take a segment out of the log: its files are renamed now and removed later, as a fetch may read them."""
    due_ms = now_ms + log.config.file_delete_delay_ms
    for path in segment.retire():
        _set_aside(log, path, due_ms)
    log.segments.remove(segment)
    # If a crash brought it back once the recovery point is above it, it would be believed.
    log.unsynced.add(log.folder)


def _set_aside(log: DurableLog, path: str, due_ms: int) -> None:
    try:
        log.fs.rename(path, path + names.DELETED)
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        log.fs.remove(path)  # no room even for another name: what would make some must not stay for that
    else:
        log.garbage.append((due_ms, path + names.DELETED))


def ages_to_learn(log: DurableLog, most: int) -> list[Segment]:
    """The oldest segments, if they must be walked through before their age is known: `delete_old_segments` with a limit
    leaves them alone. The active one is never among them."""
    config = log.config
    limit_ms = local_limits(config)[0] if log.is_tiered else config.retention_ms
    if not config.deletes or (limit_ms == UNLIMITED and config.retention_ms == UNLIMITED):
        return []
    unknown = takewhile(lambda segment: not segment.knows_largest_timestamp(), log.segments[:-1][:most])
    return list(unknown)


def count_deletable(log: DurableLog, now_ms: int, most: int | None = None) -> int:
    """How many segments, counted from the oldest, are no longer wanted; at most `most`, if that is given.
    All of them: the last is rolled first."""
    count = _below_log_start(log)
    if log.config.deletes and not log.is_tiered:
        count = max(count, _too_old(log, now_ms, most), _too_large(log, most))
    return count if most is None else min(count, most)


def _below_log_start(log: DurableLog) -> int:
    start = log.offsets.local_start
    return log.segments.number_of(min(start, log.tiered_checkpoint.covers) if log.is_tiered else start)


def _too_old(log: DurableLog, now_ms: int, most: int | None) -> int:
    limit = log.config.retention_ms
    if limit == UNLIMITED:
        return 0

    def is_too_old(segment: Segment) -> bool:
        return now_ms - age_timestamp(log, segment, now_ms, most) > limit

    return _count_while(log, is_too_old, most)


def _too_large(log: DurableLog, most: int | None) -> int:
    limit = log.config.retention_bytes
    if limit == UNLIMITED:
        return 0
    excess = log.size_bytes - limit

    def is_excess(segment: Segment) -> bool:
        nonlocal excess
        excess -= segment.size
        return excess >= 0

    return _count_while(log, is_excess, most)


def _count_while(log: DurableLog, unwanted: Callable[[Segment], bool], most: int | None) -> int:
    """Only what is committed may go, and an empty active segment has nothing to give."""
    segments, count = log.segments, 0
    for segment in islice(segments, most):
        end = segments[count + 1].base_offset if segment is not log.active else log.log_end_offset
        if end > log.high_watermark or (segment is log.active and not segment.size) or not unwanted(segment):
            break
        count += 1
    return count
