"""Selection of logs to compact, and the plan for one compaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from barnabas.common.safe_logging import safe_logger
from barnabas.log.log import Log
from barnabas.log.segments.aborted_index import AbortedTransaction
from barnabas.log.segments.segment import MAX_SEGMENT_BYTES, Segment
from barnabas.log.segments.segment_file import MAX_RELATIVE_OFFSET

# -- Request to the worker process, and its result -----------------------------------------------------

NO_DATA = -1


class SourceSegment(msgspec.Struct, frozen=True, array_like=True):
    """A sealed segment as it was when the plan was made."""

    base_offset: int
    size: int


class ProducerEnd(msgspec.Struct, frozen=True, array_like=True):
    """Last batch of a producer, whose header is retained; if it has none, markers of its epoch are."""

    producer_id: int
    last_offset: int  # NO_DATA if there is only a marker of this epoch
    epoch: int


class CompactionPlan(msgspec.Struct, frozen=True, tag="compaction"):
    folder: str
    sources: list[SourceSegment]
    """All sealed segments below `upper`."""
    later_segments: list[int]
    """Base offsets of the sealed segments above, where transactions that started below may end."""
    aborted_in_active: list[AbortedTransaction]
    first_dirty: int
    upper: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    producers: list[ProducerEnd]
    key_memory_bytes: int
    bytes_per_second: float

    def ranges(self) -> Iterator[tuple[SourceSegment, int]]:
        """Yield the sources, each with its end offset."""
        ends = [source.base_offset for source in self.sources[1:]] + [self.upper]
        return zip(self.sources, ends, strict=True)

    def fits(self, base_offset: int, size: int, end: int) -> bool:
        """True if `size` bytes with offsets in [base_offset, end) fit into one segment."""
        # At most one entry of twelve bytes per interval, plus the last entry of the time index.
        index_bytes = 12 * (size // self.index_interval_bytes + 2)
        return (
            size <= min(self.segment_bytes, MAX_SEGMENT_BYTES)
            and index_bytes <= self.segment_index_bytes
            and end - 1 - base_offset <= MAX_RELATIVE_OFFSET
        )


class CleanedGroup(msgspec.Struct, frozen=True):
    """Adjacent segments, and the size of the `.cleaned` segment that can replace them."""

    sources: list[SourceSegment]
    size: int


class CompactionResult(msgspec.Struct, frozen=True, tag="compacted"):
    cleaned_upto: int
    """Keys are unique below this offset. It is below the plan's upper bound if the keys did not fit into memory."""
    bytes_read: int
    bytes_kept: int
    records_read: int
    records_kept: int
    seconds: float
    memory_used: float  # fraction of key_memory_bytes


logger = safe_logger(__name__)


class CompactionLimits(NamedTuple):
    """Limits of one compaction: log.cleaner.dedupe.buffer.size and log.cleaner.io.max.bytes.per.second."""

    key_memory_bytes: int
    bytes_per_second: float


class Candidate(NamedTuple):
    """A log with segments to compact. Sizes are of whole segments."""

    log: Log
    first_dirty: int
    upper: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool  # a dirty record is older than max.compaction.lag.ms

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def is_worth_it(self) -> bool:
        return self.dirty_bytes > 0 and (
            self.is_overdue or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio
        )


def examine(log: Log, cleaned_upto: int | None, now_ms: int) -> Candidate | None:
    """Return a candidate for a log that was compacted up to `cleaned_upto`; None if there is nothing to compact."""
    if not log.config.compacted or len(log.segments) == 1:
        return None
    first_dirty = _first_dirty(log, cleaned_upto)
    upper = _upper_bound(log, first_dirty, now_ms)
    if upper <= first_dirty:
        return None
    sealed = log.segments[:-1]
    dirty = [
        segment
        for segment, following in zip(sealed, log.segments[1:], strict=True)
        if following.base_offset > first_dirty and segment.base_offset < upper
    ]
    clean = [segment for segment in sealed if segment.base_offset < first_dirty]
    return Candidate(log, first_dirty, upper, _size(clean), _size(dirty), _is_overdue(log, dirty, now_ms))


def _first_dirty(log: Log, cleaned_upto: int | None) -> int:
    if cleaned_upto is None or cleaned_upto < log.log_start_offset:
        return log.log_start_offset
    if cleaned_upto > log.log_end_offset:
        logger.warning(
            "%s ends at offset %d, but its cleaner checkpoint is %d: compacting it from the log start",
            log.topic_partition,
            log.log_end_offset,
            cleaned_upto,
        )
        return log.log_start_offset
    return cleaned_upto


def _upper_bound(log: Log, first_dirty: int, now_ms: int) -> int:
    """Base offset of the first segment that must not be compacted.

    Recovery treats a gap above the recovery point as loss, so unflushed segments are not compacted.
    """
    limit = min(log.decided_offset, log.recovery_point, log.active.base_offset)
    upper = log.segments[log.segments.number_of(limit)].base_offset
    lag = log.config.min_compaction_lag_ms
    if lag > 0:
        for segment in log.segments[log.segments.number_of(first_dirty) : -1]:
            if segment.base_offset >= upper:
                break
            if segment.largest_timestamp[0] > now_ms - lag:
                return segment.base_offset
    return upper


def _is_overdue(log: Log, dirty: Iterable[Segment], now_ms: int) -> bool:
    max_lag = log.config.max_compaction_lag_ms
    if now_ms - max_lag <= 0:  # the default is practically unlimited
        return False
    return any(0 < segment.earliest_timestamp < now_ms - max_lag for segment in dirty)


def _size(segments: Iterable[Segment]) -> int:
    return sum(segment.size for segment in segments)


def make_plan(candidate: Candidate, effort: CompactionLimits, now_ms: int) -> CompactionPlan:
    log, config = candidate.log, candidate.log.config
    sealed = log.segments[:-1]
    return CompactionPlan(
        folder=log.folder,
        sources=[
            SourceSegment(each.base_offset, each.size)
            for each in sealed
            if each.base_offset < candidate.upper
        ],
        later_segments=[each.base_offset for each in sealed if each.base_offset >= candidate.upper],
        aborted_in_active=list(log.active.aborted),
        first_dirty=candidate.first_dirty,
        upper=candidate.upper,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        producers=list(_producer_ends(log, candidate.upper)),
        key_memory_bytes=effort.key_memory_bytes,
        bytes_per_second=effort.bytes_per_second,
    )


def _producer_ends(log: Log, upper: int) -> Iterable[ProducerEnd]:
    for producer in log.producers:
        last_offset = producer.last_offset if producer.batches else NO_DATA
        if last_offset < upper:
            yield ProducerEnd(producer.producer_id, last_offset, producer.epoch)
