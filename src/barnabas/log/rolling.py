"""When the active segment of a log is full."""

from __future__ import annotations

from barnabas.config.topic import LogConfig
from barnabas.log.segments.segment import Segment
from barnabas.log.segments.segment_file import MAX_RELATIVE_OFFSET
from barnabas.log.segments.segment_list import Segments

SEGMENTS_BY_RECORD_TIME = 256  # five years by the week: a backfill, with Kafka's segment.ms
WORTH_A_SEGMENT = 1 << 20


class RollPolicy:
    """Follows from the settings of a topic; `jitter` (0 to 1) spreads the rolls of many logs over segment.jitter.ms.

    Of the segment that it was last asked about it says what need not be asked again: `segment`, with this
    `first_timestamp`, goes on as long as it stays within `bytes`, `timestamp` and `offset`.
    """

    __slots__ = (
        "_after_ms", "_index_bytes", "_indexes_can_fill", "_segments", "bytes", "first_timestamp", "offset",
        "segment", "timestamp",
    )  # fmt: skip

    def __init__(self, config: LogConfig, segments: Segments, jitter: float) -> None:
        self._segments = segments
        self.bytes = config.segment_bytes
        self.segment: Segment | None = None
        self.first_timestamp: int | None = None
        self.timestamp = self.offset = 0
        self._index_bytes = config.segment_index_bytes
        # With Kafka's defaults a segment is full long before its indexes are: no need to look at every append.
        most_entries = config.segment_bytes // max(config.index_interval_bytes, 1) + 1
        self._indexes_can_fill = most_entries >= config.segment_index_bytes // 12 - 1
        roll_ms = config.segment_ms
        if config.compacted:  # the active segment is never compacted, so it must not wait for too long
            roll_ms = min(roll_ms, config.max_compaction_lag_ms)
        self._after_ms = roll_ms - int(jitter * min(config.segment_jitter_ms, roll_ms))

    def is_due(
        self,
        segment: Segment,
        size: int,
        batch_bytes: int,
        last_offset: int,
        max_timestamp: int,
        now_ms: int,
    ) -> bool:
        """Must a new segment begin before this batch is appended to `segment`, which has `size` bytes?"""
        if size == 0:
            return False
        first = segment.first_timestamp
        if first is None or first < 0:
            waited_ms = segment.waited_ms(max_timestamp, now_ms)
        else:
            waited_ms = max_timestamp - first
            self._remember(segment, first)
        return (
            size + batch_bytes > self.bytes
            or (waited_ms > self._after_ms and self._may_roll_by_time(segment, size, now_ms))
            or (self._indexes_can_fill and segment.indexes_are_full(self._index_bytes))
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        )

    def _remember(self, segment: Segment, first_timestamp: int) -> None:
        if not self._indexes_can_fill:
            self.segment, self.first_timestamp = segment, first_timestamp
            self.timestamp = first_timestamp + self._after_ms
            self.offset = segment.base_offset + MAX_RELATIVE_OFFSET

    def _may_roll_by_time(self, segment: Segment, size: int, now_ms: int) -> bool:
        """Kafka believes the timestamps of records, whatever they are: a file for each batch, if each is a week later
        than the one before. We believe them as long as there are few files, or where a file is worth it."""
        return (
            len(self._segments) <= SEGMENTS_BY_RECORD_TIME
            or size >= WORTH_A_SEGMENT
            or now_ms - segment.created_ms > self._after_ms
        )
