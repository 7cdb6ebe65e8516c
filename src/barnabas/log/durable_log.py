"""The files of a log: roll, flush, retention, truncation, move. Appends are in log/log.py."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import FileSystem
from barnabas.common.types import ZERO_UUID, TopicPartition, Uuid
from barnabas.config.topic import LogConfig
from barnabas.log import names
from barnabas.log.checkpoints import encode_partition_metadata
from barnabas.log.dirs.disk import Disk
from barnabas.log.dirs.slow_writes import PendingWrites
from barnabas.log.flushing import FlushJob, Unsynced, closing_job, flush_job
from barnabas.log.local_log import LogState
from barnabas.log.offsets import NOTHING_TIERED
from barnabas.log.pending import PendingAppend, PendingAppends
from barnabas.log.reader import out_of_range
from barnabas.log.replacing import ReplaceableLog, Step
from barnabas.log.retention import apply_retention
from barnabas.log.rolling import RollPolicy
from barnabas.log.segments.segment import Segment
from barnabas.log.segments.segment_file import OpenSegments
from barnabas.log.segments.segment_list import Segments
from barnabas.log.tiering.checkpoint import Epochs, TieredCheckpoint, TieredPart, epochs_below
from barnabas.log.tiering.copying import SegmentToCopy, next_to_copy
from barnabas.log.tiering.rebuilding import start_at
from barnabas.log.tiering.retention import RemoteSegments
from barnabas.log.truncation import start_over, truncate


class DurableLog(ReplaceableLog):
    __slots__ = (
        "_before_truncation", "_flush_messages", "_last_flush_ms", "_on_flush_wanted", "_on_undone", "_on_written",
        "_pending", "_pending_writes", "_roll_jitter", "_rolling", "config", "garbage", "generation", "is_abandoned",
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
        disk: Disk,
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
        self._pending_writes: PendingWrites | None = None
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

    def begin_pending(self, writes: PendingWrites) -> PendingAppends:
        self.check_settled()
        if self._pending is None:
            self._pending = PendingAppends(self)
            self._pending_writes = writes
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
        while self._pending is not None and self._pending_writes is not None:
            self._pending_writes.drop(self._pending)

    # -- offsets ------------------------------------------------------------------------------------

    def advance_high_watermark(self, offset: int) -> None:
        """Raise the high watermark; a lower offset is ignored."""
        if self.offsets.advance_high_watermark(offset):
            self.producers.high_watermark_moved(self.offsets.high_watermark)

    def commit_written(self) -> None:
        """Raise the high watermark to the end of the written batches: this is the only in-sync replica."""
        high_watermark = self.offsets.commit_written()
        if self.producers.decided is not None:
            self.producers.high_watermark_moved(high_watermark)

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
            raise out_of_range(self, offset)
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

    def next_to_copy(self, now_ms: int) -> SegmentToCopy | None:
        """Return the next sealed segment to copy, to be read in a thread."""
        return next_to_copy(self, now_ms)

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

    def start_at(
        self, offset: int, log_start: int, epochs: Epochs, producers: bytes, *, in_background: bool = False
    ) -> None:
        """Remove everything and start empty at the tiered end `offset`. Log start, epochs and producer snapshot come
        from the remote segments. `in_background`: see log/replacing.py."""
        self.settle()
        self.drop_pending()
        self.replace(start_at(self, offset, log_start, epochs, producers), in_background=in_background)

    # -- retention and truncation ---------------------------------------------------------------------

    def delete_old_segments(self, now_ms: int, most: int | None = None) -> list[Segment]:
        """Apply retention and return the removed segments; their files are deleted after file.delete.delay.ms.

        At most `most` are removed; if it was that many, there may be more.
        """
        if not self.is_settled:
            return self.resume_replacement()
        with self.storage_errors():
            return apply_retention(self, now_ms, most)

    def truncate_to(self, offset: int) -> None:
        """Truncate the log to `offset`, or to the start of the batch that contains it."""
        self.drop_pending()
        if offset >= self.offsets.end:
            self.forget_unwritten_epochs()  # as Kafka
            return
        self.settle()
        if offset < max(self.segments.base_offset, self.offsets.start):
            # Nothing may stay below the log start: a kill forgets where that was.
            self.replace(start_over(self, offset, keep_remote=self.is_tiered), in_background=False)
            return
        with self.storage_errors(harmless=()):
            truncate(self, offset)

    def truncate_fully_and_start_at(self, offset: int, *, in_background: bool = False) -> None:
        """Remove everything and start empty at `offset`. `in_background`: see log/replacing.py."""
        self.settle()
        self.drop_pending()
        self.replace(start_over(self, offset), in_background=in_background)

    def begin_truncation(self, log_end: int) -> list[Step]:
        """Return steps that lower the checkpoints on disk; without them, recovery takes a truncation for damage."""
        self.generation += 1
        self.offsets.begin_truncation(log_end)
        checkpoint = self._before_truncation(log_end) if self._before_truncation else None
        steps = [checkpoint, partial(self.tiered_checkpoint.cut, self.folder, log_end)]
        return [step for step in steps if step is not None]

    def lower_recovery_point(self, offset: int) -> None:
        """Lower the recovery point before a truncation; for several logs, one checkpoint then covers all of them."""
        self.offsets.lower_recovery_point(offset)

    def use_files_of(self, other: DurableLog, folder: str) -> None:
        """Switch to the files of the future replica, which are in `folder` now (log/dirs/move.py).

        Producers and epochs are kept: they have more than can be derived from the batches.
        """
        self.settle()
        other.settle()
        self.segments.forget()
        self.segments = other.segments
        self.segments.move_to(folder)
        files, _ = other.unsynced.take()
        moved = [f"{folder}/{os.path.basename(path)}" for path in files]
        self.unsynced = Unsynced([folder, os.path.dirname(folder)], moved)
        self.folder, self.disk, self.snapshots = folder, other.disk, other.snapshots
        self.tiered_checkpoint = other.tiered_checkpoint
        self.snapshots.folder = folder
        self.offsets.use_recovery_point(other.offsets.recovery_point)
        self.generation += 1
        self.garbage.clear()  # removed with the old folder
        self.epochs.has_no_file()
        self.update_config(self.config)

    def confirm_topic_id(self, topic_id: Uuid) -> None:
        """Raise KafkaError if the topic id differs. Write it if the creation of the log was interrupted before that."""
        if self.topic_id == ZERO_UUID:
            path = f"{self.folder}/{names.PARTITION_METADATA}"
            self.fs.write_atomic(path, encode_partition_metadata(topic_id))
            self.topic_id = topic_id
        if self.topic_id != topic_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID, f"{self.folder} belongs to an older topic of the same name"
            )

    def take_garbage(self) -> list[tuple[int, str]]:
        """Return and clear the (due time, path) of files that the caller removes."""
        garbage, self.garbage = self.garbage, []
        return garbage

    # -- flush and close ----------------------------------------------------------------------------

    def prepare_flush(self) -> FlushJob:
        """Return a job that syncs all written batches; the caller runs it and calls `complete_flush`."""
        if not self.is_settled:
            return FlushJob(self.fs, [], [], [], self.offsets.recovery_point, self.generation)
        with self.storage_errors():
            return flush_job(self)

    def complete_flush(self, job: FlushJob) -> None:
        """Raise the recovery point after a job, unless the log was truncated meanwhile."""
        if job.generation == self.generation:
            self.offsets.advance_recovery_point(job.upto)

    def flush(self) -> None:
        """Flush synchronously."""
        job = self.prepare_flush()
        with self.storage_errors():
            job.run()
        self.complete_flush(job)

    def flush_is_due(self, now_ms: int) -> bool:
        """True if flush.ms or flush.messages is reached; then the flush.ms interval starts again."""
        unflushed = self.offsets.end - self.offsets.recovery_point
        if not unflushed:
            return False
        self._last_flush_ms = min(self._last_flush_ms, now_ms)  # the clock may have been set back since
        if unflushed < self._flush_messages and now_ms - self._last_flush_ms < self.config.flush_ms:
            return False
        self._last_flush_ms = now_ms
        return True

    def count_flush_ms_from(self, now_ms: int) -> None:
        self._last_flush_ms = now_ms

    def prepare_close(self) -> FlushJob:
        """Write everything and return the job that syncs it. There must be no appends afterwards."""
        self.watch_pending(lambda size: None, lambda: None)
        self.settle()
        self.drop_pending()
        with self.storage_errors():
            return closing_job(self)

    def close(self) -> None:
        job = self.prepare_close()
        with self.storage_errors():
            job.run()
        self.complete_flush(job)
        self.abandon()

    def abandon(self) -> None:
        """Release the files without saving."""
        self.is_abandoned = True
        self.cancel_replacement()
        self.segments.forget()
