"""What this disk remembers of a log's remote part: the file `tiered-offset-checkpoint` in the partition's folder.

    0                        version, as in Kafka's checkpoints
    <number of lines>
    <log start> <tiered end>
    <leader epoch> <start>   of each epoch from the log start to the tiered end

That a log is tiered is known at its recovery by this file alone. It keeps three promises:

- A segment leaves this disk only if it lies below the tiered end or the log start *in the file*: so whatever is missing
  below the first local segment is known to be remote or deleted.
- Before a log is cut below them, the file says less: what is written there later was never copied.
- Both are below the first local segment only while such a cut is under way. Recovery finishes it.

The log start in the file may be behind: the larger of this one and `log-start-offset-checkpoint` counts.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from barnabas.common.files import FileSystem
from barnabas.log import names
from barnabas.log.checkpoints import CheckpointError, decode_epochs, encode_epochs, read_if_there
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.failures import DamagedLog
from barnabas.log.offsets import NOTHING_TIERED

Epochs: TypeAlias = Sequence[tuple[int, int]]
"""(leader epoch, start offset)"""


class TieredPart(NamedTuple):
    log_start: int
    end: int
    epochs: tuple[tuple[int, int], ...]

    def cut(self, end: int) -> TieredPart:
        """As it is once the log has been cut to `end`."""
        return TieredPart(min(self.log_start, end), min(self.end, end), epochs_below(self.epochs, end))

    @property
    def covers(self) -> int:
        """What lies below need not be on this disk."""
        return max(self.log_start, self.end)


def epochs_below(epochs: tuple[tuple[int, int], ...], end: int) -> tuple[tuple[int, int], ...]:
    return tuple(entry for entry in epochs if entry[1] < end)


class TieredCheckpoint:
    """`on_disk` is what the file says for certain; None without a file. Written in any thread: the newest wins."""

    __slots__ = ("_fs", "_newest", "_writing", "on_disk")

    def __init__(self, fs: FileSystem, on_disk: TieredPart | None = None) -> None:
        self._fs = fs
        self._newest = 0
        self._writing = threading.Lock()
        self.on_disk = on_disk

    @property
    def end(self) -> int:
        known = self.on_disk
        return NOTHING_TIERED if known is None else known.end

    @property
    def covers(self) -> int:
        """What lies below may leave this disk."""
        known = self.on_disk
        return NOTHING_TIERED if known is None else known.covers

    def prepare(self, folder: str, part: TieredPart) -> TieredWrite:
        self._newest += 1
        return TieredWrite(self, folder, part, self._newest)

    def write(self, folder: str, part: TieredPart) -> None:
        """Here and now."""
        self.prepare(folder, part).run()

    def cut(self, folder: str, log_end: int) -> None:
        """Before the log is cut there the file must not say more."""
        noted = self.on_disk
        if noted is not None and noted.covers > log_end:
            self.write(folder, noted.cut(log_end))

    def remove(self, folder: str) -> None:
        self._newest += 1
        with self._writing:
            if self.on_disk is not None:
                self._fs.remove(_path(folder))
                self._fs.sync_folder(folder)
                self.on_disk = None

    def take(self, job: TieredWrite) -> None:
        with self._writing:
            if job.number == self._newest:
                lines = ((job.part.log_start, job.part.end), *job.part.epochs)
                self._fs.write_atomic(_path(job.folder), encode_epochs(lines))
                self.on_disk = job.part


class TieredWrite(NamedTuple):
    checkpoint: TieredCheckpoint
    folder: str
    part: TieredPart
    number: int

    def run(self) -> None:
        """In any thread; nothing if something newer is to be written. OSError when the disk fails."""
        self.checkpoint.take(self)


def read_tiered(fs: FileSystem, folder: str, present: list[str]) -> TieredPart | None:
    """DamagedLog if the file cannot be right: without it nobody knows where the log starts."""
    if names.TIERED_PART not in present:
        return None
    try:
        (log_start, end), *epochs = decode_epochs(read_if_there(fs, _path(folder)) or b"") or [(-1, -1)]
    except CheckpointError as error:
        raise DamagedLog(folder, f"{names.TIERED_PART} cannot be read: {error}") from error
    if log_start < 0 or end < 0:
        raise DamagedLog(folder, f"{names.TIERED_PART} names no log start and no tiered end")
    return TieredPart(log_start, end, tuple(epochs))


def all_epochs(tiered: TieredPart, local: LeaderEpochs) -> LeaderEpochs:
    """Those of the remote part, and then those that this disk knows of the rest."""
    later = [entry for entry in local.entries if entry[1] >= tiered.end]
    epochs = LeaderEpochs([*tiered.epochs, *later])
    epochs.dirty = epochs.entries != local.entries
    return epochs


def _path(folder: str) -> str:
    return f"{folder}/{names.TIERED_PART}"
