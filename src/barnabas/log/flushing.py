"""A flush in three steps, so that the slow one can run in a thread: prepare, run, complete."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.files import File, FileSystem
from barnabas.log import names
from barnabas.log.checkpoints import encode_epochs
from barnabas.log.tiering.checkpoint import TieredWrite

if TYPE_CHECKING:
    from barnabas.log.durable_log import DurableLog


class Unsynced:
    """Files beside the segments, and folders, that the next flush has to sync.

    What is in here may be lost by a crash, so the recovery point must not move above what depends on it: the
    indexes of a sealed segment, the name of a new one, the disappearance of an old one.
    """

    __slots__ = ("files", "folders")

    def __init__(self, folders: Iterable[str] = (), files: Iterable[str] = ()) -> None:
        self.folders = dict.fromkeys(folders)
        self.files = list(files)

    def add(self, folder: str, files: Iterable[str] = ()) -> None:
        self.folders[folder] = None
        self.files += files

    def take(self) -> tuple[list[str], list[str]]:
        """(files, folders), which are the caller's business from now on."""
        taken = self.files, list(self.folders)
        self.files, self.folders = [], {}
        return taken


class FlushJob(NamedTuple):
    """What has to reach the disk so that everything below `upto` survives a loss of power."""

    fs: FileSystem
    files: list[File]
    paths: list[str]
    folders: list[str]  # to be synced too, because files were created in them
    upto: int
    generation: int
    tiered: TieredWrite | None = None

    def run(self) -> None:
        """May be called in any thread. An OSError is final: the kernel may have dropped what it could not write."""
        for file in self.files:
            file.sync()
        for path in self.paths:
            self._sync_path(path)
        for folder in self.folders:
            with suppress(FileNotFoundError):  # the partition was deleted, or has moved
                self.fs.sync_folder(folder)
        if self.tiered is not None:
            with suppress(FileNotFoundError):
                self.tiered.run()

    def _sync_path(self, path: str) -> None:
        try:
            file = self.fs.open(path)
        except FileNotFoundError:
            return  # a snapshot or checkpoint that was replaced or removed meanwhile
        try:
            file.sync()
        finally:
            file.close()


def flush_job(log: DurableLog) -> FlushJob:
    """See `DurableLog.prepare_flush`."""
    unflushed = log.segments.since(log.recovery_point)
    written = log.offsets.written
    if log.recovery_point == written and not log.unsynced.folders:
        unflushed = []
    log.unsynced.files += log.snapshots.take_unsynced()
    if log.epochs.is_worth_saving(written):
        log.unsynced.files.append(save_epochs(log))
    if log.unsynced.files:
        log.unsynced.folders[log.folder] = None
    files = [segment.file for segment in unflushed]
    paths, folders = log.unsynced.take()
    return FlushJob(log.fs, files, paths, folders, written, log.generation, _tiered_write(log))


def _tiered_write(log: DurableLog) -> TieredWrite | None:
    """What has been copied since is remembered, so that it may leave the disk."""
    part = log.tiered_part()
    noted = log.tiered_checkpoint
    if part is None or (part.end <= noted.end and part.covers <= noted.covers):
        return None
    return log.tiered_checkpoint.prepare(log.folder, part)


def save_epochs(log: DurableLog) -> str:
    """Every batch carries its epoch, so this file may be written late: with the flush of those batches."""
    path = f"{log.folder}/{names.LEADER_EPOCHS}"
    log.fs.write_atomic(path, encode_epochs(log.epochs.entries), sync=False)
    log.epochs.dirty = False
    return path


def closing_job(log: DurableLog) -> FlushJob:
    """See `DurableLog.prepare_close`. A log in which nothing has happened costs nothing: there may be thousands."""
    if log.log_end_offset == 0 and log.generation == 0:
        # It never had a record. Should a crash take its files, the next start makes them again.
        return FlushJob(log.fs, [], [], [], 0, log.generation)
    known = log.log_end_offset in log.snapshots.offsets
    if not known and (log.size_bytes or len(log.producers)):
        log.snapshots.take(log.producers, log.log_end_offset)
    for segment in log.segments:
        if segment.seal_if_unsaved():
            log.unsynced.files += segment.existing_paths()[1:]
    return flush_job(log)
