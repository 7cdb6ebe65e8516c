"""A log that grows: its config, rolls, pending appends, log start and tiered end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from barnabas.common.files import FileSystem
from barnabas.common.types import TopicPartition, Uuid
from barnabas.config.topic import LogConfig
from barnabas.log.dirs.disk_health import DiskHealth
from barnabas.log.local_log import LogState
from barnabas.log.offsets import NOTHING_TIERED
from barnabas.log.pending import PendingAppend, PendingAppends
from barnabas.log.replacing import ReplaceableLog, Step
from barnabas.log.segments.segment import Segment
from barnabas.log.segments.segment_file import MAX_RELATIVE_OFFSET, OpenSegments
from barnabas.log.segments.segment_list import Segments
from barnabas.log.tiering.checkpoint import TieredCheckpoint, TieredPart, epochs_below
from barnabas.log.tiering.remote_segments import RemoteSegments

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


class RollingLog(ReplaceableLog):
    """A log with its config. Segments are rolled here; retention, truncation and flush are in log/durable_log.py."""

    __slots__ = (
        "_before_truncation", "_flush_messages", "_last_flush_ms", "_on_flush_wanted", "_on_undone", "_on_written",
        "_pending", "_roll_jitter", "_rolling", "config", "garbage", "generation", "is_abandoned",
        "open_segments", "remote", "snapshots", "tiered_checkpoint", "topic_id", "unsynced",
    )  # fmt: skip

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        parts: LogState,
        disk: DiskHealth,
        open_segments: OpenSegments,
        roll_jitter: float,
    ) -> None:
        super().__init__(
            fs,
            folder,
            topic_partition,
            parts.offsets(),
            Segments(parts.segments, parts.log_end),
            parts.producers,
            parts.epochs,
            disk,
        )
        self.topic_id = topic_id
        self.config = config
        self.snapshots = parts.snapshots
        self.unsynced = parts.unsynced
        self.open_segments = open_segments
        self.tiered_checkpoint = TieredCheckpoint(fs, parts.tiered)
        self.remote: RemoteSegments | None = None
        """The remote segments, on the leader of a tiered partition."""
        self.is_abandoned = False
        """The files must not be used any more: the partition was deleted, or its disk has failed."""
        self.generation = 0
        """Incremented by truncations and moves, which invalidate prepared flushes and compactions."""
        self.garbage: list[tuple[int, str]] = []
        """(due time, path) of files to be removed later."""
        self._roll_jitter = roll_jitter
        self._last_flush_ms = 0  # start of the current flush.ms interval
        self._on_flush_wanted: Callable[[], None] = lambda: None
        self._before_truncation: Callable[[int], Step | None] | None = None
        self._replacement, self._waiting_for_files = None, []
        self._pending: PendingAppends | None = None
        self.watch_pending(lambda size: None, lambda: None)
        self.producers.high_watermark_moved(self.offsets.high_watermark)
        self.producers.log_start_moved(self.offsets.start)

    def update_config(self, config: LogConfig) -> None:
        self.config = config
        self._flush_messages = config.flush_messages
        self._rolling = RollPolicy(config, self.segments, self._roll_jitter)

    def connect(
        self,
        *,
        on_flush_wanted: Callable[[], None] | None = None,
        before_truncation: Callable[[int], Step | None] | None = None,
    ) -> None:
        """`on_flush_wanted` is called after a roll, and when flush.messages is reached. `before_truncation` returns the
        step that checkpoints the new log end as recovery point, which has to run before the files are truncated."""
        self._on_flush_wanted = on_flush_wanted or (lambda: None)
        self._before_truncation = before_truncation

    def watch_pending(self, on_written: Callable[[int], None], on_undone: Callable[[], None]) -> None:
        """Set the callbacks for pending appends that were written (with their size) or undone."""
        self._on_written = on_written
        self._on_undone = on_undone

    # -- roll ---------------------------------------------------------------------------------------

    def roll(self, now_ms: int = 0) -> None:
        """Seal the active segment and start a new one at the log end. An empty one is kept."""
        active, end = self.segments.active, self.offsets.end
        if self._pending is not None:
            return  # pending appends roll the segment themselves
        if active.size == 0 and active.base_offset == end:
            return
        with self.storage_errors():
            self.snapshots.take(self.producers, end)
            active.seal()
            fresh = Segment.create(self.fs, self.folder, end, self.open_segments, now_ms)
        self.unsynced.add(self.folder, active.existing_paths()[1:])
        self.segments.roll(fresh)
        self._on_flush_wanted()

    # -- pending appends, for a slow disk -------------------------------------------------------------

    @property
    def has_pending(self) -> bool:
        """True if appends are not written yet, or the files are being replaced."""
        return self._pending is not None or self._replacement is not None

    def begin_pending(self, cancel: Callable[[PendingAppends], None]) -> PendingAppends:
        """Return the queue of pending appends. `cancel` waits for its current write and undoes the others."""
        self.check_settled()
        if self._pending is None:
            self._pending = PendingAppends(self, cancel)
        return self._pending

    def end_pending(self) -> None:
        self._pending = None

    def must_roll(
        self, segment: Segment, size: int, batch: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> bool:
        """True if a segment with `size` bytes must be rolled before a batch of `batch` bytes is appended."""
        return self._rolling.is_due(segment, size, batch, last_offset, max_timestamp, now_ms)

    def want_flush(self) -> None:
        self._on_flush_wanted()

    def note_written(self, offset: int, size: int) -> None:
        """Record that pending appends below `offset`, `size` bytes, are written."""
        self.offsets.note_written(offset)
        if offset - self.offsets.recovery_point > self._flush_messages:
            self._on_flush_wanted()
        self._on_written(size)

    def undo_appends(self, appends: list[PendingAppend]) -> None:
        """Restore the state before these appends, which will not be written."""
        offsets = self.offsets
        offsets.undo_appends()
        self.epochs.truncate_end(offsets.end)
        saved = [append.saved for append in reversed(appends) if append.saved is not None]
        self.producers.undo(saved, offsets.high_watermark)
        self.producers.log_start_moved(offsets.start)
        if not self.segments.active.size:
            self.segments.active.first_timestamp = None
        self._on_undone()

    def drop_pending(self) -> None:
        """Wait for a running write and undo all other pending appends, including those made by callbacks."""
        while self._pending is not None:
            self._pending.cancel()

    # -- offsets ------------------------------------------------------------------------------------

    def advance_high_watermark(self, offset: int) -> None:
        """Raise the high watermark; a lower offset is ignored."""
        if self.offsets.advance_high_watermark(offset):
            self.producers.high_watermark_moved(self.offsets.high_watermark)

    def commit_written(self) -> None:
        """Raise the high watermark to the end of the written batches: this is the only in-sync replica."""
        offsets = self.offsets
        offsets.high_watermark = offsets.written
        if self.producers.decided is not None:
            self.producers.high_watermark_moved(offsets.written)

    def start_epoch(self, epoch: int) -> None:
        """Record the start of a leader epoch at the log end."""
        self.epochs.assign(epoch, self.offsets.end)

    def forget_unwritten_epochs(self) -> None:
        """Remove epochs without batches: a follower only has the epochs of its batches."""
        self.epochs.truncate_end(self.offsets.end)

    # -- log start ------------------------------------------------------------------------------------

    def advance_log_start(self, offset: int) -> None:
        """Raise the log start, as for DeleteRecords. The next retention run removes the segments below it."""
        if offset > self.offsets.high_watermark:
            raise self.out_of_range(offset)
        if self.offsets.advance_start(offset):
            self.epochs.truncate_start(offset)
            self.producers.log_start_moved(offset)
            if self.is_tiered and offset > self.tiered_checkpoint.covers:
                self._on_flush_wanted()

    # -- tiered storage: see log/tiering ---------------------------------------------------------------

    @property
    def is_tiered(self) -> bool:
        """True if the log has, or had, remote segments."""
        return self.offsets.tiered_end != NOTHING_TIERED

    def tiered_part(self) -> TieredPart | None:
        """Contents of the tiered checkpoint."""
        start, end = self.offsets.start, self.offsets.tiered_end
        return TieredPart(start, end, epochs_below(self.epochs.entries, end)) if self.is_tiered else None

    def note_tiered(self, end: int) -> None:
        """Raise the tiered end. Local segments may be removed after a flush has checkpointed it.

        It is limited to the high watermark; a follower gets the tiered end again later.
        """
        if self.offsets.advance_tiered_end(min(end, self.offsets.high_watermark)):
            self._on_flush_wanted()

    def lower_tiered(self, end: int) -> bool:
        """Lower the tiered end after remote segments were lost. False if the local log does not start early enough."""
        self.offsets.lower_tiered_end(end)
        return self.offsets.tiered_end <= end

    def use_remote(self, remote: RemoteSegments | None) -> None:
        """Set the remote segments that total retention counts; None on a follower, which follows the leader."""
        self.remote = remote

    def end_tiering(self) -> None:
        """Drop the remote part: the log start becomes the local start."""
        self.settle()
        with self.storage_errors():
            self.tiered_checkpoint.remove(self.folder)
        self.offsets.end_tiering()
        self.epochs.truncate_start(self.offsets.start)
        self.producers.log_start_moved(self.offsets.start)
        self.remote = None

    def begin_truncation(self, log_end: int) -> list[Step]:
        """Return steps that lower the checkpoints on disk; without them, recovery takes a truncation for damage."""
        self.generation += 1
        self.offsets.begin_truncation(log_end)
        checkpoint = self._before_truncation(log_end) if self._before_truncation else None
        steps = [checkpoint, partial(self.tiered_checkpoint.cut, self.folder, log_end)]
        return [step for step in steps if step is not None]
