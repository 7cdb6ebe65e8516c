"""The files of a log: rolled, flushed, removed, cut, moved. Appends are in log/log.py."""

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
from barnabas.log.reading import out_of_range
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
        """What is known of the remote segments, while this log is a leader's."""
        self.is_abandoned = False
        """The files are no longer ours: the partition was deleted, or its disk has failed."""
        self.generation = 0
        """Grows whenever bytes are cut: flushes and compactions that were prepared before are void."""
        self.garbage: list[tuple[int, str]] = []
        """(when, path) of files to be removed later."""
        self._roll_jitter = roll_jitter
        self._last_flush_ms = 0  # when flush.ms was last counted from
        self._on_flush_wanted: Callable[[], None] = _ignore
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
        """`on_flush_wanted`: a segment was sealed, or flush.messages is reached. `before_truncation`: gives the step
        that notes the new log end as recovery point, which must be run before bytes are cut."""
        self._on_flush_wanted = on_flush_wanted or _ignore
        self._before_truncation = before_truncation

    def watch_pending(self, on_written: Callable[[int], None], on_undone: Callable[[], None]) -> None:
        """Who is called when appends that were pending are written, with their bytes, or have been undone."""
        self._on_written = on_written
        self._on_undone = on_undone

    # -- rolling ------------------------------------------------------------------------------------

    def roll(self, now_ms: int = 0) -> None:
        """Seal the active segment and start a new one at the log end. An empty one goes on as it is."""
        active, end = self.segments.active, self.offsets.end
        if self._pending is not None:
            return  # it will roll when its time has come
        if active.size == 0 and active.base_offset == end:
            return
        with self.storage_errors():
            self.snapshots.take(self.producers, end)
            active.seal()
            fresh = Segment.create(self.fs, self.folder, end, self.open_segments, now_ms)
        self.unsynced.add(self.folder, active.existing_paths()[1:])
        self.segments.roll(fresh)
        self._on_flush_wanted()

    # -- appends that wait for a slow disk ------------------------------------------------------------

    @property
    def has_pending(self) -> bool:
        """Is something appended that is not written, or has the disk other files than the log?"""
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
        """Is a segment with `size` bytes full before a batch of so many more?"""
        return self._rolling.is_due(segment, size, batch, last_offset, max_timestamp, now_ms)

    def want_flush(self) -> None:
        self._on_flush_wanted()

    def note_written(self, offset: int, size: int) -> None:
        """What was pending below `offset` is written; those were `size` bytes."""
        self.offsets.note_written(offset)
        if offset - self.offsets.recovery_point > self._flush_messages:
            self._on_flush_wanted()
        self._on_written(size)

    def undo_appends(self, appends: list[PendingAppend]) -> None:
        """They will not be written: everything is as before the first of them."""
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
        """Keep what is written and undo the rest, also what callbacks append meanwhile. Waits for a running write."""
        while self._pending is not None and self._pending_writes is not None:
            self._pending_writes.drop(self._pending)

    # -- offsets ------------------------------------------------------------------------------------

    def advance_high_watermark(self, offset: int) -> None:
        """Replication says how far the in-sync replicas have come; a smaller offset is old news."""
        if self.offsets.advance_high_watermark(offset):
            self.producers.high_watermark_moved(self.offsets.high_watermark)

    def commit_written(self) -> None:
        """No other replica is in sync: all that is written is committed."""
        high_watermark = self.offsets.commit_written()
        if self.producers.decided is not None:
            self.producers.high_watermark_moved(high_watermark)

    def start_epoch(self, epoch: int) -> None:
        """A leader of this epoch begins to write at the log end."""
        self.epochs.assign(epoch, self.offsets.end)

    def forget_unwritten_epochs(self) -> None:
        """Epochs that began at the log end and left no batch: a follower says only what its batches say."""
        self.epochs.truncate_end(self.offsets.end)

    # -- moving the start and the end -----------------------------------------------------------------

    def advance_log_start(self, offset: int) -> None:
        """DeleteRecords: nothing below `offset` is read any more. Whole segments go with the next retention."""
        if offset > self.offsets.high_watermark:
            raise out_of_range(self, offset)
        if self.offsets.advance_start(offset):
            self.epochs.truncate_start(offset)
            self.producers.log_start_moved(offset)
            if self.is_tiered and offset > self.tiered_checkpoint.covers:
                self._on_flush_wanted()

    # -- tiers: see log/tiering ------------------------------------------------------------------------

    @property
    def is_tiered(self) -> bool:
        """Has it, or had it, remote segments?"""
        return self.offsets.tiered_end != NOTHING_TIERED

    def tiered_part(self) -> TieredPart | None:
        """What the disk is to remember of the remote part."""
        start, end = self.offsets.start, self.offsets.tiered_end
        return TieredPart(start, end, epochs_below(self.epochs.entries, end)) if self.is_tiered else None

    def note_tiered(self, end: int) -> None:
        """Everything below `end` is in remote segments. Once a flush has noted that on the disk, segments may leave it.

        What is not committed here counts as not copied: a follower hears of it again.
        """
        if self.offsets.advance_tiered_end(min(end, self.offsets.high_watermark)):
            self._on_flush_wanted()

    def lower_tiered(self, end: int) -> bool:
        """Remote segments from `end` on were lost. False if this disk does not hold what comes next, either."""
        self.offsets.lower_tiered_end(end)
        return self.offsets.tiered_end <= end

    def next_to_copy(self, now_ms: int) -> SegmentToCopy | None:
        """The next sealed segment from the tiered end on, to be read in a thread."""
        return next_to_copy(self, now_ms)

    def use_remote(self, remote: RemoteSegments | None) -> None:
        """Total retention counts these; None: it is the leader's business."""
        self.remote = remote

    def end_tiering(self) -> None:
        """The remote segments are given up: the log starts on this disk."""
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
        """Remove everything; the log goes on, empty, at the tiered end `offset`, as remote segments say what is before:
        the log start, the epochs since then, and a snapshot of the producers. `in_background`: see log/replacing.py."""
        self.settle()
        self.drop_pending()
        self.replace(start_at(self, offset, log_start, epochs, producers), in_background=in_background)

    # -- removing and cutting -------------------------------------------------------------------------

    def delete_old_segments(self, now_ms: int, most: int | None = None) -> list[Segment]:
        """Apply retention; the removed segments, whose files are gone after file.delete.delay.ms.

        At most `most` of them: there may be more to remove when it was so many.
        """
        if not self.is_settled:
            return self.resume_replacement()
        with self.storage_errors():
            return apply_retention(self, now_ms, most)

    def truncate_to(self, offset: int) -> None:
        """Cut the log so that it ends at `offset`, or at the start of the batch that holds it."""
        self.drop_pending()
        if offset >= self.offsets.end:
            return
        self.settle()
        if offset < self.segments.base_offset:
            self.replace(start_over(self, offset, keep_remote=self.is_tiered), in_background=False)
            return
        with self.storage_errors(harmless=()):
            truncate(self, offset)

    def truncate_fully_and_start_at(self, offset: int, *, in_background: bool = False) -> None:
        """Remove everything; the log goes on, empty, at `offset`. `in_background`: see log/replacing.py."""
        self.settle()
        self.drop_pending()
        self.replace(start_over(self, offset), in_background=in_background)

    def begin_truncation(self, log_end: int) -> list[Step]:
        """What must be on the disk before anything is cut: a recovery point above the cut would look like damage."""
        self.generation += 1
        self.offsets.begin_truncation(log_end)
        checkpoint = self._before_truncation(log_end) if self._before_truncation else None
        steps = [checkpoint, partial(self.tiered_checkpoint.cut, self.folder, log_end)]
        return [step for step in steps if step is not None]

    def lower_recovery_point(self, offset: int) -> None:
        """The log will be cut there; if the points of several logs are lowered first, one checkpoint notes them all."""
        self.offsets.lower_recovery_point(offset)

    def use_files_of(self, other: DurableLog, folder: str) -> None:
        """Go on with the files of a copy of this log, which are in `folder` by now (log/dirs/move.py).

        What is known of producers and epochs stays: this log knows more of them than its batches say.
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
        self.garbage.clear()  # it goes with the old folder
        self.epochs.has_no_file()
        self.update_config(self.config)

    def confirm_topic_id(self, topic_id: Uuid) -> None:
        """KafkaError if it is of another topic. If its creation was interrupted, the id is written only now."""
        if self.topic_id == ZERO_UUID:
            path = f"{self.folder}/{names.PARTITION_METADATA}"
            self.fs.write_atomic(path, encode_partition_metadata(topic_id))
            self.topic_id = topic_id
        if self.topic_id != topic_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID, f"{self.folder} holds an older topic of the same name"
            )

    def take_garbage(self) -> list[tuple[int, str]]:
        """(when, path) of files to be removed, which are the caller's business from now on."""
        garbage, self.garbage = self.garbage, []
        return garbage

    # -- flushing and closing -----------------------------------------------------------------------

    def prepare_flush(self) -> FlushJob:
        """What to sync for everything appended until now; `complete_flush` follows when it has been run."""
        if not self.is_settled:
            return FlushJob(self.fs, [], [], [], self.offsets.recovery_point, self.generation)
        with self.storage_errors():
            return flush_job(self)

    def complete_flush(self, job: FlushJob) -> None:
        """The job has been run: move the recovery point, unless the log was cut meanwhile."""
        if job.generation == self.generation:
            self.offsets.advance_recovery_point(job.upto)

    def flush(self) -> None:
        """All three steps at once, in this thread."""
        job = self.prepare_flush()
        with self.storage_errors():
            job.run()
        self.complete_flush(job)

    def flush_is_due(self, now_ms: int) -> bool:
        """Do flush.ms or flush.messages ask for a flush? After a True, flush.ms is counted from now."""
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
        """A clean end: everything is written and, once the job has run, synced. Nothing may follow."""
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
        """Give back the files and save nothing more."""
        self.is_abandoned = True
        self.cancel_replacement()
        self.segments.forget()


def _ignore() -> None:
    """Nobody wants to know."""
