"""One log dir: its lock, its identity, its checkpoints, and how it was left the last time."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.common.files import File, FileSystem
from barnabas.common.types import ZERO_UUID, TopicPartition, Uuid
from barnabas.log.checkpoints import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    CheckpointError,
    decode_lines,
    decode_offsets,
    encode_lines,
    encode_offsets,
    read_if_there,
)
from barnabas.log.dirs.disk import Disk
from barnabas.log.dirs.properties import read_boot_id, read_clean_shutdown
from barnabas.log.failures import DISK_FULL, DiskFull, LogDirError
from barnabas.log.log import Log
from barnabas.log.recovery.verification import Stop

LOCK = ".lock"
DAMAGED_PARTITIONS = ".barnabas-damaged"
"""Partitions that were found damaged: they are checked fully at every start until they are sound."""
ACCEPTED_LOSSES = ".barnabas-accepted-losses"
"""Partitions whose folder is gone, and that may begin again with empty logs (log/dirs/missing.py)."""


class FolderInUseError(RuntimeError):
    """Another process works in the folder."""

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"another broker is using {folder}: stop it first, or give this one a folder of its own"
        )


class Checkpoints(NamedTuple):
    """The offsets of all partitions of a dir, as they were noted from time to time."""

    recovery_points: dict[TopicPartition, int]
    log_starts: dict[TopicPartition, int]
    high_watermarks: dict[TopicPartition, int]


class LogDir:
    def __init__(self, fs: FileSystem, folder: str, reserve_bytes: int = 0) -> None:
        self.fs = fs
        self.folder = folder
        self.directory_id: Uuid = ZERO_UUID
        """As `meta.properties` has it, once the dir is claimed."""
        self.disk = Disk(fs, folder, reserve_bytes)
        self.kept = Checkpoints({}, {}, {})
        self.cleaned: dict[TopicPartition, int] = {}
        """How far the logs that are compacted have been. Never above the end of a log, or keys would be missed."""
        self._lock_file: File | None = None
        self._written: dict[str, dict[TopicPartition, int]] = {}
        self._newest = 0
        self._newest_written = -1
        self.unwritten_deletions: set[TopicPartition] = set()
        """Partitions that are gone, and of which the checkpoints on disk may still speak."""
        self._writing = threading.Lock()

    # -- the lock -----------------------------------------------------------------------------------

    def lock(self) -> None:
        """Keep other processes out, Apache Kafka included; FolderInUseError when one is in."""
        self._make_folder()
        file = self.fs.open(f"{self.folder}/{LOCK}", create=True)
        if file.fileno() >= 0:  # a file system in memory belongs to this process anyway
            try:
                # flock keeps out other brokers of ours, in this process too; lockf is what Java uses.
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.lockf(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                file.close()
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    raise FolderInUseError(self.folder) from None
                raise
        self._lock_file = file

    def _make_folder(self) -> None:
        """Create the folder, and let its name survive a crash before anything in it must."""
        missing = []
        folder = self.folder
        while folder and not self.fs.exists(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        self.fs.make_folders(self.folder)
        for folder in missing:
            self.fs.sync_folder(os.path.dirname(folder))

    def unlock(self) -> None:
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

    # -- how it was left ----------------------------------------------------------------------------

    def how_it_stopped(self, boot_id: str | None) -> Stop:
        if read_clean_shutdown(self.fs, self.folder) is not None:
            return Stop.CLEAN
        same_boot = boot_id is not None and read_boot_id(self.fs, self.folder) == boot_id
        return Stop.KILLED if same_boot else Stop.CRASHED

    def read_checkpoints(self) -> Checkpoints:
        return Checkpoints(*map(self._read_offsets, (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS)))

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        """An unreadable checkpoint counts as none: then everything is scanned, and nothing is lost."""
        try:
            data = read_if_there(self.fs, f"{self.folder}/{name}")
            return {} if data is None else decode_offsets(data)
        except CheckpointError:
            return {}

    def read_cleaned(self, known: Iterable[TopicPartition]) -> None:
        """Take over what was noted of the partitions that are still there."""
        noted = self._read_offsets(CLEANED_OFFSETS)
        self.cleaned = {partition: noted[partition] for partition in known if partition in noted}

    def read_partitions(self, name: str) -> set[TopicPartition]:
        """The partitions that a file of ours lists."""
        data = read_if_there(self.fs, f"{self.folder}/{name}")
        if data is None:
            return set()
        try:
            return {TopicPartition(topic, int(index)) for topic, index in decode_lines(data, 2)}
        except ValueError:
            return set()

    def write_partitions(self, name: str, partitions: Iterable[TopicPartition]) -> None:
        path = f"{self.folder}/{name}"
        lines = [f"{topic} {index}" for topic, index in sorted(partitions)]
        if lines:
            self.fs.write_atomic(path, encode_lines(lines))
        elif self.fs.exists(path):
            self.fs.remove(path)

    # -- checkpoints --------------------------------------------------------------------------------

    def checkpoint(self, logs: Iterable[Log]) -> CheckpointJob:
        """What to write for these logs, all of this dir; `run` it here or in a thread."""
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
        """A damaged partition is not opened; what was noted of it must stay, or it would look sound."""
        for kept, offsets in zip(self.kept, known, strict=True):
            if partition in offsets:
                kept[partition] = offsets[partition]

    def forget(self, partition: TopicPartition) -> None:
        """The next checkpoint says nothing of it. A new partition of that name must wait for that."""
        self.unwritten_deletions.add(partition)
        for kept in (*self.kept, self.cleaned):
            kept.pop(partition, None)

    def write_checkpoint(self, job: CheckpointJob) -> None:
        """Write what has changed, unless a newer job is written. One that a newer job has overtaken is written all the
        same: its caller may rely on it before the newer one is run."""
        with self._writing:
            if job.number < self._newest_written:
                return
            for name, offsets in job.offsets.items():
                # As text only here, perhaps in a thread: that takes milliseconds for a thousand partitions.
                if self._written.get(name) != offsets:
                    self.fs.write_atomic(f"{self.folder}/{name}", encode_offsets(offsets))
                    self._written[name] = offsets
            self.unwritten_deletions -= job.deleted
            self._newest_written = job.number

    def notes_nothing_beyond(self, log_end: int, partition: TopicPartition) -> bool:
        """May the log be cut there without another checkpoint? Not while one is under way that says otherwise."""
        with self._writing:
            return self._newest == self._newest_written and all(
                offsets.get(partition, 0) <= log_end for offsets in self._written.values()
            )

    def fail(self, cause: OSError) -> LogDirError:
        error = LogDirError(self.folder, cause)
        self.disk.fail(error)
        return error


def _added(kept: dict[TopicPartition, int], now: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    return kept | now if kept else now  # on the loop, for all partitions of the dir: not copied for nothing


class CheckpointJob(NamedTuple):
    log_dir: LogDir
    number: int
    offsets: dict[str, dict[TopicPartition, int]]
    deleted: frozenset[TopicPartition]  # of which nothing is said any more

    def run(self) -> None:
        """Raises DiskFull when there is no room: the older notes stay, which are true, if less is."""
        try:
            self.log_dir.write_checkpoint(self)
        except OSError as error:
            if error.errno in DISK_FULL:
                raise DiskFull(self.log_dir.folder, error) from error
            self.log_dir.fail(error)
