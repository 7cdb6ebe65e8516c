"""Flush of a log in three steps, prepare, run and complete, so that the slow one can run in a thread."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from barnabas.common.files import File, FileSystem
from barnabas.log import names
from barnabas.log.checkpoints import encode_epochs
from barnabas.log.rolling_log import RollingLog
from barnabas.log.tiering.checkpoint import TieredWrite


class FlushJob(NamedTuple):
    """Files and folders to sync so that everything below `upto` survives a power failure."""

    fs: FileSystem
    files: list[File]
    paths: list[str]
    folders: list[str]  # in which files were created, renamed or removed
    upto: int
    generation: int
    tiered: TieredWrite | None = None

    def run(self) -> None:
        """Sync everything, in any thread. An OSError is final: the kernel may have dropped the dirty pages."""
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
            return  # the file was replaced or removed meanwhile
        try:
            file.sync()
        finally:
            file.close()


def flush_job(log: RollingLog) -> FlushJob:
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


def _tiered_write(log: RollingLog) -> TieredWrite | None:
    """Write of the tiered checkpoint, if it has changed: local segments may be removed only up to it."""
    part = log.tiered_part()
    checkpoint = log.tiered_checkpoint
    if part is None or (part.end <= checkpoint.end and part.covers <= checkpoint.covers):
        return None
    return log.tiered_checkpoint.prepare(log.folder, part)


def save_epochs(log: RollingLog) -> str:
    """Write the epoch file. It may be as late as the flush of the batches, which have the epoch in their headers."""
    path = f"{log.folder}/{names.LEADER_EPOCHS}"
    log.fs.write_atomic(path, encode_epochs(log.epochs.entries), sync=False)
    log.epochs.dirty = False
    return path


def closing_job(log: RollingLog) -> FlushJob:
    """See `DurableLog.prepare_close`. Cheap for unused logs, of which there may be thousands."""
    if log.log_end_offset == 0 and log.generation == 0:
        # It never had a record. If a crash loses its files, the next start creates them again.
        return FlushJob(log.fs, [], [], [], 0, log.generation)
    has_snapshot = log.log_end_offset in log.snapshots.offsets
    if not has_snapshot and (log.size_bytes or len(log.producers)):
        log.snapshots.take(log.producers, log.log_end_offset)
    for segment in log.segments:
        if segment.seal_if_unsaved():
            log.unsynced.files += segment.existing_paths()[1:]
    return flush_job(log)
