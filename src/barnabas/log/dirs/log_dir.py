"""One log dir: its disk, its checkpoints, and the state at its top (log/dirs/state.py)."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.common.files import FileSystem
from barnabas.common.types import ZERO_UUID, TopicPartition, Uuid
from barnabas.log.checkpoints import CLEANED_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from barnabas.log.dirs.disk import Disk
from barnabas.log.dirs.state import FileLogDirState, LogDirState
from barnabas.log.failures import DISK_FULL, DiskFull, LogDirError
from barnabas.log.log import Log


class Checkpoints(NamedTuple):
    """Contents of the checkpoint files of a dir."""

    recovery_points: dict[TopicPartition, int]
    log_starts: dict[TopicPartition, int]
    high_watermarks: dict[TopicPartition, int]


def checkpoints_of(log: Log) -> Checkpoints:
    """The checkpoint entries of one log."""
    partition = log.topic_partition
    return Checkpoints(
        {partition: log.recovery_point}, {partition: log.log_start_offset}, {partition: log.high_watermark}
    )


class LogDir:
    def __init__(
        self, fs: FileSystem, folder: str, reserve_bytes: int = 0, state: LogDirState | None = None
    ) -> None:
        self.fs = fs
        self.folder = folder
        self.state: LogDirState = state or FileLogDirState(fs, folder)
        self.directory_id: Uuid = ZERO_UUID
        """From `meta.properties`; set when the dir is claimed."""
        self.disk = Disk(fs, folder, reserve_bytes)
        self.kept = Checkpoints({}, {}, {})
        self.cleaned: dict[TopicPartition, int] = {}
        """Offsets up to which logs were compacted. Never above a log end offset, or keys would be missed."""
        self._written: dict[str, dict[TopicPartition, int]] = {}
        self._newest = 0
        self._newest_written = -1
        self.unwritten_deletions: set[TopicPartition] = set()
        """Deleted partitions that the checkpoints on disk may still contain."""
        self.released: set[TopicPartition] = set()
        """Partitions that another process may have open: it writes their entries, and unfinished jobs here do not."""
        self._writing = threading.Lock()

    # -- state at startup ---------------------------------------------------------------------------

    def read_checkpoints(self) -> Checkpoints:
        return Checkpoints(*map(self.state.read_offsets, (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS)))

    def read_cleaned(self, known: Iterable[TopicPartition]) -> None:
        """Load the cleaner checkpoint of the partitions that still exist."""
        offsets = self.state.read_offsets(CLEANED_OFFSETS)
        self.cleaned = {partition: offsets[partition] for partition in known if partition in offsets}

    # -- checkpoints --------------------------------------------------------------------------------

    def checkpoint(self, logs: Iterable[Log]) -> CheckpointJob:
        """Return a job that writes the checkpoints of these logs, all in this dir; it may run in a thread."""
        logs = list(logs)
        points = {log.topic_partition: log.recovery_point for log in logs}
        starts = {
            log.topic_partition: log.log_start_offset
            for log in logs
            if log.log_start_offset > log.segments.base_offset or log.is_tiered
        }
        marks = {log.topic_partition: log.high_watermark for log in logs}
        unsettled = {log.topic_partition: at for log in logs if (at := log.noted_from) is not None}
        starts |= unsettled
        marks |= unsettled
        self._newest += 1
        offsets = {
            RECOVERY_POINTS: _added(self.kept.recovery_points, points),
            LOG_STARTS: _added(self.kept.log_starts, starts),
            HIGH_WATERMARKS: _added(self.kept.high_watermarks, marks),
            CLEANED_OFFSETS: dict(self.cleaned),
        }
        return CheckpointJob(self, self._newest, offsets, frozenset(self.unwritten_deletions))

    def keep(self, partition: TopicPartition, known: Checkpoints) -> None:
        """Keep the entries of a partition that is not open: without them, a damaged one would look intact."""
        for kept, offsets in zip(self.kept, known, strict=True):
            if partition in offsets:
                kept[partition] = offsets[partition]

    def forget(self, partition: TopicPartition) -> None:
        """Omit the partition from the next checkpoint, which is written before a new one of that name is created."""
        self.unwritten_deletions.add(partition)
        self.drop_kept(partition)

    def drop_kept(self, partition: TopicPartition) -> None:
        """Drop the entries that are kept for a partition: it is opened, or another process may open it."""
        for kept in (*self.kept, self.cleaned):
            kept.pop(partition, None)

    def release(self, partition: TopicPartition) -> None:
        """Write no entries of the partition until it is opened again."""
        self.drop_kept(partition)
        with self._writing:
            self.released.add(partition)

    def others_have_written(self, partitions: Iterable[TopicPartition]) -> None:
        """Another process may have written entries of these partitions, which are ours now: the next checkpoint is
        written even if it equals our last one."""
        with self._writing:
            self.released.difference_update(partitions)
            self._written.clear()
            self._newest += 1

    def write_checkpoint(self, job: CheckpointJob) -> None:
        """Write the files that have changed, unless a newer job was written already.

        A job is also written if a newer one exists but has not run: its caller may rely on it.
        """
        with self._writing:
            if job.number < self._newest_written:
                return
            for name, offsets in job.offsets.items():
                # Encoded here, possibly in a thread: it takes milliseconds for a thousand partitions.
                if self.released:
                    offsets = {each: at for each, at in offsets.items() if each not in self.released}
                if job.deleted or self._written.get(name) != offsets:
                    self.state.write_offsets(name, offsets, job.deleted)
                    self._written[name] = offsets
            self.unwritten_deletions -= job.deleted
            self._newest_written = job.number

    def notes_nothing_beyond(self, log_end: int, partition: TopicPartition) -> bool:
        """True if no checkpoint, written or in progress, has an offset above `log_end` for the partition."""
        with self._writing:
            return self._newest == self._newest_written and all(
                offsets.get(partition, 0) <= log_end for offsets in self._written.values()
            )

    def fail(self, cause: OSError) -> LogDirError:
        error = LogDirError(self.folder, cause)
        self.disk.fail(error)
        return error


def _added(kept: dict[TopicPartition, int], now: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    return kept | now if kept else now  # runs on the event loop for all partitions: avoid the copy


class CheckpointJob(NamedTuple):
    log_dir: LogDir
    number: int
    offsets: dict[str, dict[TopicPartition, int]]
    deleted: frozenset[TopicPartition]  # no longer in `offsets`

    def run(self) -> None:
        """Write the checkpoints. Raise DiskFull if the disk is full: the old checkpoints stay and are still valid."""
        try:
            self.log_dir.write_checkpoint(self)
        except OSError as error:
            if error.errno in DISK_FULL:
                raise DiskFull(self.log_dir.folder, error) from error
            self.log_dir.fail(error)
