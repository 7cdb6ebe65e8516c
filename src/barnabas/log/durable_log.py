"""The files of a log: flush, retention, truncation, move. Appends are in log/log.py."""

from __future__ import annotations

import os

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import ZERO_UUID, Uuid
from barnabas.log import names
from barnabas.log.checkpoints import encode_partition_metadata
from barnabas.log.flushing import FlushJob, closing_job, flush_job
from barnabas.log.local_log import Unsynced
from barnabas.log.retention import apply_retention
from barnabas.log.rolling_log import RollingLog
from barnabas.log.segments.segment import Segment
from barnabas.log.tiering.checkpoint import Epochs
from barnabas.log.tiering.copying import SegmentToCopy, next_to_copy
from barnabas.log.truncation import start_at, start_over, truncate


class DurableLog(RollingLog):
    __slots__ = ()

    def next_to_copy(self, now_ms: int) -> SegmentToCopy | None:
        """Return the next sealed segment to copy, to be read in a thread."""
        return next_to_copy(self, now_ms)

    def start_at(
        self, offset: int, log_start: int, epochs: Epochs, producers: bytes, *, in_background: bool = False
    ) -> None:
        """Remove everything and start empty at the tiered end `offset`. Log start, epochs and producer snapshot come
        from the remote segments. `in_background`: see log/replacing.py."""
        self.settle()
        self.drop_pending()
        self.replace(start_at(self, offset, log_start, epochs, producers), in_background=in_background)

    # -- retention and truncation ---------------------------------------------------------------------

    def delete_old_segments(self, now_ms: int, limit: int | None = None) -> list[Segment]:
        """Apply retention and return the removed segments; their files are deleted after file.delete.delay.ms.

        At most `limit` are removed; if it was that many, there may be more.
        """
        if not self.is_settled:
            return self.resume_replacement()
        with self.storage_errors():
            return apply_retention(self, now_ms, limit)

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
