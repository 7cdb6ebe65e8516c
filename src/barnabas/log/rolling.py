"""Conditions for rolling the active segment of a log."""

from __future__ import annotations

from barnabas.config.topic import LogConfig
from barnabas.log.segments.segment import Segment
from barnabas.log.segments.segment_file import MAX_RELATIVE_OFFSET
from barnabas.log.segments.segment_list import Segments

SEGMENTS_BY_RECORD_TIME = 256  # a backfill of five years, with the default segment.ms of a week
MIN_SEGMENT_BYTES = 1 << 20  # for a roll by record timestamps beyond that number of segments


class RollPolicy:
    """Roll conditions from the topic config; `jitter` (0 to 1) spreads the rolls of many logs over segment.jitter.ms.

    For the append path, the limits of the last checked segment are cached: `segment`, with this `first_timestamp`, is
    not rolled while it stays within `bytes`, `timestamp` and `offset`.
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
        # With Kafka's defaults a segment is full long before its indexes, so appends need not check them.
        max_entries = config.segment_bytes // max(config.index_interval_bytes, 1) + 1
        self._indexes_can_fill = max_entries >= config.segment_index_bytes // 12 - 1
        roll_ms = config.segment_ms
        if config.compacted:  # the active segment is never compacted, so max.compaction.lag.ms limits its age
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
        """True if `segment`, which has `size` bytes, must be rolled before this batch is appended."""
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
        """False if record timestamps would create too many small segments.

        Kafka rolls by record timestamps without a limit: one segment per batch, if each is a week later than the
        previous one.
        """
        return (
            len(self._segments) <= SEGMENTS_BY_RECORD_TIME
            or size >= MIN_SEGMENT_BYTES
            or now_ms - segment.created_ms > self._after_ms
        )
