"""One log dir: its lock, its identity, its checkpoints, and the kind of its last shutdown."""

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
from barnabas.log.recovery.verification import ShutdownKind

LOCK = ".lock"
DAMAGED_PARTITIONS = ".barnabas-damaged"
"""Partitions that were found damaged: every start checks them completely until they are intact."""
ACCEPTED_LOSSES = ".barnabas-accepted-losses"
"""Partitions with a missing folder that may start again with empty logs (log/dirs/missing.py)."""


class FolderInUseError(RuntimeError):
    """Another process uses the folder."""

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"another broker is using {folder}: stop it first, or set log.dirs to a different folder"
        )


class Checkpoints(NamedTuple):
    """Contents of the checkpoint files of a dir."""

    recovery_points: dict[TopicPartition, int]
    log_starts: dict[TopicPartition, int]
    high_watermarks: dict[TopicPartition, int]


def is_locked(folder: str) -> bool:
    """Return True if a broker uses the dir. Takes the lock for a moment if none does."""
    try:
        file = os.open(f"{folder}/{LOCK}", os.O_RDWR)
    except OSError:
        return False
    try:
        _take_lock(file)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def _take_lock(file: int) -> None:
    """flock excludes other Barnabas brokers, also in this process; Java uses lockf."""
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class LogDir:
    def __init__(self, fs: FileSystem, folder: str, reserve_bytes: int = 0) -> None:
        self.fs = fs
        self.folder = folder
        self.directory_id: Uuid = ZERO_UUID
        """From `meta.properties`; set when the dir is claimed."""
        self.disk = Disk(fs, folder, reserve_bytes)
        self.kept = Checkpoints({}, {}, {})
        self.cleaned: dict[TopicPartition, int] = {}
        """Offsets up to which logs were compacted. Never above a log end offset, or keys would be missed."""
        self._lock_file: File | None = None
        self._written: dict[str, dict[TopicPartition, int]] = {}
        self._newest = 0
        self._newest_written = -1
        self.unwritten_deletions: set[TopicPartition] = set()
        """Deleted partitions that the checkpoints on disk may still contain."""
        self._writing = threading.Lock()

    # -- the lock -----------------------------------------------------------------------------------

    def lock(self) -> None:
        """Lock the dir against other processes, including Apache Kafka; raise FolderInUseError if it is locked."""
        self._make_folder()
        file = self.fs.open(f"{self.folder}/{LOCK}", create=True)
        if file.fileno() >= 0:  # an in-memory file system needs no lock
            try:
                _take_lock(file.fileno())
            except OSError as error:
                file.close()
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    raise FolderInUseError(self.folder) from None
                raise
        self._lock_file = file

    def _make_folder(self) -> None:
        """Create the folder, and sync its parents so that it survives a crash."""
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

    # -- state at startup ---------------------------------------------------------------------------

    def how_it_stopped(self, boot_id: str | None) -> ShutdownKind:
        if read_clean_shutdown(self.fs, self.folder) is not None:
            return ShutdownKind.CLEAN
        same_boot = boot_id is not None and read_boot_id(self.fs, self.folder) == boot_id
        return ShutdownKind.KILLED if same_boot else ShutdownKind.CRASHED

    def read_checkpoints(self) -> Checkpoints:
        return Checkpoints(*map(self._read_offsets, (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS)))

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        """Read a checkpoint file. An unreadable one counts as empty: recovery then scans everything."""
        try:
            data = read_if_there(self.fs, f"{self.folder}/{name}")
            return {} if data is None else decode_offsets(data)
        except CheckpointError:
            return {}

    def read_cleaned(self, known: Iterable[TopicPartition]) -> None:
        """Load the cleaner checkpoint of the partitions that still exist."""
        offsets = self._read_offsets(CLEANED_OFFSETS)
        self.cleaned = {partition: offsets[partition] for partition in known if partition in offsets}

    def read_partitions(self, name: str) -> set[TopicPartition]:
        """Read a list of partitions; an invalid file counts as empty."""
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
        """Keep the checkpoint entries of a damaged partition, which is not opened, or it would look intact."""
        for kept, offsets in zip(self.kept, known, strict=True):
            if partition in offsets:
                kept[partition] = offsets[partition]

    def forget(self, partition: TopicPartition) -> None:
        """Omit the partition from the next checkpoint, which is written before a new one of that name is created."""
        self.unwritten_deletions.add(partition)
        for kept in (*self.kept, self.cleaned):
            kept.pop(partition, None)

    def write_checkpoint(self, job: CheckpointJob) -> None:
        """Write the files that have changed, unless a newer job was written already.

        A job is also written if a newer one exists but has not run: its caller may rely on it.
        """
        with self._writing:
            if job.number < self._newest_written:
                return
            for name, offsets in job.offsets.items():
                # Encoded here, possibly in a thread: it takes milliseconds for a thousand partitions.
                if self._written.get(name) != offsets:
                    self.fs.write_atomic(f"{self.folder}/{name}", encode_offsets(offsets))
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
