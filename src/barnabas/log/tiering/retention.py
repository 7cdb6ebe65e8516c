"""Retention of a log with a remote part.

Total retention (`retention.ms`, `retention.bytes`) counts both tiers once: remote segments, and what this disk holds
above the tiered end. It moves the log start, and the owner of the remote segments removes those below it. Only a log
that knows its remote segments (a leader's) does that; others follow the log start of their leader. Until a new leader
has read its manifest nothing expires: records are backfilled, so what is on the disk may be older than what is remote.

Local retention (`local.retention.*`) moves the local start. It takes only sealed segments that lie below the high
watermark and below the tiered end, as the disk remembers it: see tiers/checkpoint.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.config.topic import LogConfig
from barnabas.log.offsets import NOTHING_TIERED
from barnabas.log.segments.segment import Segment
from barnabas.records.batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from barnabas.log.durable_log import DurableLog

UNLIMITED = -1
AS_TOTAL = -2


class RemoteSegment(NamedTuple):
    base: int
    end: int
    size: int  # bytes of records
    largest_timestamp: int


class RemoteSegments(Protocol):
    """What a log wants to know of its remote segments. They lie in memory: nothing here waits."""

    @property
    def is_known(self) -> bool:
        """Has the manifest been read? If not, there may be others than those listed here."""
        ...

    @property
    def end(self) -> int:
        """Where the last one ends. The log's own tiered end may be below it, as its high watermark may."""
        ...

    @property
    def size_bytes(self) -> int:
        """Of all of them."""
        ...

    def oldest(self) -> Iterator[RemoteSegment]:
        """All, the oldest first; each begins where the one before ends, and the last ends at the tiered end."""
        ...


class _Piece(NamedTuple):
    """A segment of either tier that counts once."""

    end: int
    size: int
    timestamp: int


def local_limits(config: LogConfig) -> tuple[int, int]:
    """(ms, bytes) that stay on this disk. Where nothing is copied any more, total retention counts, as in Kafka."""
    ms, size = config.local_retention_ms, config.local_retention_bytes
    if config.remote_log_copy_disable:
        ms = size = AS_TOTAL
    return (
        config.retention_ms if ms == AS_TOTAL else ms,
        config.retention_bytes if size == AS_TOTAL else size,
    )


def copies(config: LogConfig) -> bool:
    """Are sealed segments copied to remote storage?"""
    return config.remote_storage_enable and not config.remote_log_copy_disable


# -- the log start ------------------------------------------------------------------------------------


def expired_upto(log: DurableLog, now_ms: int, most: int | None = None) -> int:
    """The log start that total retention asks for, looking at `most` segments of this disk."""
    config, start = log.config, log.offsets.start
    if log.remote is not None and not log.remote.is_known:
        return start
    excess = _total_bytes(log) - config.retention_bytes
    for end, size, timestamp in _pieces(log, now_ms, most):
        excess -= size
        is_old = config.retention_ms != UNLIMITED and now_ms - timestamp > config.retention_ms
        is_excess = config.retention_bytes != UNLIMITED and excess >= 0
        if end > log.high_watermark or not (is_old or is_excess):
            break
        start = end
    return start


def _remote(log: DurableLog) -> Iterator[RemoteSegment]:
    """Those that have something above the log start."""
    segments = log.remote.oldest() if log.remote is not None else iter(())
    return (segment for segment in segments if segment.end > log.offsets.start)


def _total_bytes(log: DurableLog) -> int:
    if log.config.retention_bytes == UNLIMITED:
        return 0
    remote = 0
    if log.remote is not None:
        below = (s.size for s in log.remote.oldest() if s.end <= log.offsets.start)
        remote = log.remote.size_bytes - sum(below)
    return remote + sum(size for _, size in above_tiered_end(log))


def _tiered_end(log: DurableLog) -> int:
    return max(log.offsets.tiered_end, log.remote.end if log.remote is not None else NOTHING_TIERED)


def above_tiered_end(log: DurableLog) -> Iterator[tuple[Segment, int]]:
    """Segments of this disk with the bytes of each that are not remote."""
    tiered_end = _tiered_end(log)
    for segment in log.segments.since(tiered_end):
        copied = 0
        if segment.base_offset < tiered_end:  # an earlier leader's boundary: about so much
            copied = segment.offset_index.lookup(tiered_end - segment.base_offset)
        yield segment, segment.size - copied


def _pieces(log: DurableLog, now_ms: int, most: int | None) -> Iterator[_Piece]:
    for remote in _remote(log):
        yield _Piece(remote.end, remote.size, remote.largest_timestamp)
    for segment, size in islice(above_tiered_end(log), most):
        if end := _end_of(log, segment):
            yield _Piece(end, size, age_timestamp(log, segment, now_ms, most))


def _end_of(log: DurableLog, segment: Segment) -> int:
    """Where it ends; 0 for one that has nothing to give."""
    if segment is log.active:
        return log.log_end_offset if segment.size and log.log_end_offset > _tiered_end(log) else 0
    return log.segments[log.segments.number_of(segment.base_offset) + 1].base_offset


def age_timestamp(log: DurableLog, segment: Segment, now_ms: int, most: int | None) -> int:
    """The time of its latest record; when records carry none, or one of a future in which the topic allows no record
    to be, the time of the last write. Kafka keeps the latter until that time has come. With a limit `most`, a segment
    whose age only a walk would tell is taken for new."""
    if most is not None and segment is not log.active and not segment.knows_largest_timestamp():
        return now_ms
    timestamp, _ = segment.largest_timestamp
    is_possible = timestamp - now_ms <= log.config.message_timestamp_after_max_ms
    return timestamp if timestamp != NO_TIMESTAMP and is_possible else segment.modified_ms()


# -- the local start ----------------------------------------------------------------------------------


def leaves_disk_upto(log: DurableLog, now_ms: int, most: int | None = None) -> int:
    """The local start that local retention asks for, looking at `most` segments. Never the active one: only sealed
    segments are copied."""
    limit_ms, limit_bytes = local_limits(log.config)
    offsets, excess = log.offsets, log.size_bytes - limit_bytes
    copied = min(offsets.tiered_end, log.tiered_checkpoint.end, offsets.high_watermark)
    start = offsets.local_start
    for segment, following in islice(pairwise(log.segments), most):
        excess -= segment.size
        is_excess = limit_bytes != UNLIMITED and excess >= 0
        if following.base_offset > copied or not (is_excess or _is_old(log, segment, limit_ms, now_ms, most)):
            break
        start = max(start, following.base_offset)
    return start


def _is_old(log: DurableLog, segment: Segment, limit_ms: int, now_ms: int, most: int | None) -> bool:
    return limit_ms != UNLIMITED and now_ms - age_timestamp(log, segment, now_ms, most) > limit_ms


def _active_is_unwanted(log: DurableLog, now_ms: int) -> bool:
    """Is the active segment all that is left here, and too old for this disk? Sealed it can be copied, and then go; so
    does Kafka."""
    active, (limit_ms, _) = log.active, local_limits(log.config)
    is_last = log.offsets.local_start >= active.base_offset
    return is_last and bool(active.size) and _is_old(log, active, limit_ms, now_ms, None)


# -- both ---------------------------------------------------------------------------------------------


def move_starts(log: DurableLog, now_ms: int, most: int | None = None) -> None:
    """Let log start and local start of a tiered log go where retention wants them. Segments go afterwards."""
    if log.config.deletes and log.remote is not None:
        start = expired_upto(log, now_ms, most)
        if start == log.log_end_offset and start > log.active.base_offset:
            log.roll(now_ms)
        log.advance_log_start(min(start, log.high_watermark))
    if log.config.deletes and log.config.remote_storage_enable:
        log.offsets.advance_local_start(leaves_disk_upto(log, now_ms, most))
        if _active_is_unwanted(log, now_ms):
            log.roll(now_ms)


def is_due_for_copying(log: DurableLog, now_ms: int, roll_ms: int) -> bool:
    """Has the active segment of a tiered topic been filled for `barnabas.remote.roll.ms`? What it holds is copied only
    once it is sealed."""
    active = log.active
    return copies(log.config) and bool(active.size) and now_ms - active.created_ms >= roll_ms
