"""State at the top of a log dir, outside of the partitions' folders: lock, identity, checkpoints, markers.

`LogDirState` is the interface; `FileLogDirState` reads and writes the files themselves. If several processes serve one
log dir, only one of them writes at its top, and the others reach it through another implementation.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable, Mapping
from typing import Protocol

from barnabas.common.files import File, FileSystem
from barnabas.common.types import TopicPartition
from barnabas.log.checkpoints import (
    CheckpointError,
    decode_lines,
    decode_offsets,
    encode_lines,
    encode_offsets,
    read_if_exists,
)
from barnabas.log.dirs import properties
from barnabas.log.dirs.properties import MetaProperties
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


class LogDirState(Protocol):
    """Calls may block on the disk, and may come from any thread. They raise OSError if the disk fails."""

    def lock(self) -> None:
        """Exclude other processes, including Apache Kafka; raise FolderInUseError if one uses the dir."""
        ...

    def unlock(self) -> None: ...

    def identity(self) -> MetaProperties | None:
        """The identity of the dir; None if it is new. Raise KafkaError if it is invalid."""
        ...

    def claim(self, cluster_id: str, node_id: int) -> MetaProperties:
        """Give a new dir its identity; raise KafkaError if it belongs to another broker."""
        ...

    def last_shutdown(self, boot_id: str | None) -> ShutdownKind: ...

    def opened(self, boot_id: str | None) -> None:
        """Remove the clean shutdown marker, and store the boot id unless it is None."""
        ...

    def closed(self, broker_epoch: int, partitions: Iterable[TopicPartition]) -> None:
        """Write the clean shutdown marker: these partitions, which are all, are complete and synced."""
        ...

    def write_boot_id(self, boot_id: str) -> None: ...

    def read_offsets(self, name: str) -> dict[TopicPartition, int]:
        """Read a checkpoint; an invalid one counts as empty."""
        ...

    def write_offsets(
        self, name: str, offsets: Mapping[TopicPartition, int], removed: Iterable[TopicPartition] = ()
    ) -> None:
        """Write a checkpoint; `removed` were deleted, and had entries before."""
        ...

    def read_partitions(self, name: str) -> set[TopicPartition]:
        """Read a list of partitions; an invalid one counts as empty."""
        ...

    def write_partitions(self, name: str, partitions: Iterable[TopicPartition]) -> None: ...


class FileLogDirState:
    """The files of a log dir that one process serves."""

    def __init__(self, fs: FileSystem, folder: str) -> None:
        self._fs = fs
        self._folder = folder
        self._lock_file: File | None = None

    # -- lock and identity --------------------------------------------------------------------------

    def lock(self) -> None:
        self._make_folder()
        file = self._fs.open(f"{self._folder}/{LOCK}", create=True)
        if file.fileno() >= 0:  # an in-memory file system needs no lock
            try:
                _take_lock(file.fileno())
            except OSError as error:
                file.close()
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    raise FolderInUseError(self._folder) from None
                raise
        self._lock_file = file

    def _make_folder(self) -> None:
        """Create the folder, and sync its parents so that it survives a crash."""
        missing = []
        folder = self._folder
        while folder and not self._fs.exists(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        self._fs.make_folders(self._folder)
        for folder in missing:
            self._fs.sync_folder(os.path.dirname(folder))

    def unlock(self) -> None:
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

    def identity(self) -> MetaProperties | None:
        return properties.read_identity(self._fs, self._folder)

    def claim(self, cluster_id: str, node_id: int) -> MetaProperties:
        return properties.claim(self._fs, self._folder, cluster_id, node_id)

    # -- shutdowns ----------------------------------------------------------------------------------

    def last_shutdown(self, boot_id: str | None) -> ShutdownKind:
        if properties.read_clean_shutdown(self._fs, self._folder) is not None:
            return ShutdownKind.CLEAN
        same_boot = boot_id is not None and properties.read_boot_id(self._fs, self._folder) == boot_id
        return ShutdownKind.KILLED if same_boot else ShutdownKind.CRASHED

    def opened(self, boot_id: str | None) -> None:
        properties.remove_clean_shutdown(self._fs, self._folder)
        if boot_id is not None:
            self.write_boot_id(boot_id)

    def closed(self, broker_epoch: int, partitions: Iterable[TopicPartition]) -> None:
        properties.write_clean_shutdown(self._fs, self._folder, broker_epoch)

    def write_boot_id(self, boot_id: str) -> None:
        properties.write_boot_id(self._fs, self._folder, boot_id)

    # -- checkpoints and lists ----------------------------------------------------------------------

    def read_offsets(self, name: str) -> dict[TopicPartition, int]:
        try:
            data = read_if_exists(self._fs, f"{self._folder}/{name}")
            return {} if data is None else decode_offsets(data)
        except CheckpointError:
            return {}  # recovery then scans everything

    def write_offsets(
        self, name: str, offsets: Mapping[TopicPartition, int], removed: Iterable[TopicPartition] = ()
    ) -> None:
        self._fs.write_atomic(f"{self._folder}/{name}", encode_offsets(offsets))

    def read_partitions(self, name: str) -> set[TopicPartition]:
        data = read_if_exists(self._fs, f"{self._folder}/{name}")
        if data is None:
            return set()
        try:
            return {TopicPartition(topic, int(index)) for topic, index in decode_lines(data, 2)}
        except ValueError:
            return set()

    def write_partitions(self, name: str, partitions: Iterable[TopicPartition]) -> None:
        path = f"{self._folder}/{name}"
        lines = [f"{topic} {index}" for topic, index in sorted(partitions)]
        if lines:
            self._fs.write_atomic(path, encode_lines(lines))
        elif self._fs.exists(path):
            self._fs.remove(path)


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
