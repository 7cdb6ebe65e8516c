"""The tiered offsets of a log: the file `tiered-offset-checkpoint` in the partition's folder.

    0                        version, as in Kafka's checkpoints
    <number of lines>
    <log start> <tiered end>
    <leader epoch> <start>   of each epoch from the log start to the tiered end

In recovery, a log is tiered if this file exists. Invariants:

- A local segment is removed only if it is below the tiered end or the log start *in the file*. So everything missing
  below the first local segment is remote or deleted.
- Before a log is truncated below these offsets, the file is lowered: offsets above will be reused for other records.
- Both offsets are below the first local segment only during such a truncation. Recovery finishes it.

The log start in the file may be outdated: the larger of this one and `log-start-offset-checkpoint` is used.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from barnabas.common.files import FileSystem
from barnabas.log import names
from barnabas.log.checkpoints import CheckpointError, decode_epochs, encode_epochs, read_if_exists
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
        """Return the state after a truncation to `end`."""
        return TieredPart(min(self.log_start, end), min(self.end, end), epochs_below(self.epochs, end))

    @property
    def covers(self) -> int:
        """Offset below which local segments are not needed."""
        return max(self.log_start, self.end)


def epochs_below(epochs: tuple[tuple[int, int], ...], end: int) -> tuple[tuple[int, int], ...]:
    return tuple(entry for entry in epochs if entry[1] < end)


class TieredCheckpoint:
    """`on_disk` has the contents of the file; None without a file. Writes may run in any thread: the newest wins."""

    __slots__ = ("_fs", "_newest", "_writing", "on_disk")

    def __init__(self, fs: FileSystem, on_disk: TieredPart | None = None) -> None:
        self._fs = fs
        self._newest = 0
        self._writing = threading.Lock()
        self.on_disk = on_disk

    @property
    def end(self) -> int:
        part = self.on_disk
        return NOTHING_TIERED if part is None else part.end

    @property
    def covers(self) -> int:
        """Offset below which local segments may be removed."""
        part = self.on_disk
        return NOTHING_TIERED if part is None else part.covers

    def prepare(self, folder: str, part: TieredPart) -> TieredWrite:
        self._newest += 1
        return TieredWrite(self, folder, part, self._newest)

    def write(self, folder: str, part: TieredPart) -> None:
        """Write the file synchronously."""
        self.prepare(folder, part).run()

    def cut(self, folder: str, log_end: int) -> None:
        """Lower the offsets in the file before the log is truncated to `log_end`."""
        part = self.on_disk
        if part is not None and part.covers > log_end:
            self.write(folder, part.cut(log_end))

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
        """Write the file, in any thread, unless a newer write exists. Raise OSError if the disk fails."""
        self.checkpoint.take(self)


def read_tiered(fs: FileSystem, folder: str, present: list[str]) -> TieredPart | None:
    """Read the file; raise DamagedLog if it is invalid, as the log start is unknown then."""
    if names.TIERED_PART not in present:
        return None
    try:
        (log_start, end), *epochs = decode_epochs(read_if_exists(fs, _path(folder)) or b"") or [(-1, -1)]
    except CheckpointError as error:
        raise DamagedLog(folder, f"{names.TIERED_PART} cannot be read: {error}") from error
    if log_start < 0 or end < 0:
        raise DamagedLog(folder, f"{names.TIERED_PART} has no log start and tiered end")
    return TieredPart(log_start, end, tuple(epochs))


def all_epochs(tiered: TieredPart, local: LeaderEpochs) -> LeaderEpochs:
    """Merge the epochs of the remote part with the local ones above the tiered end."""
    later = [entry for entry in local.entries if entry[1] >= tiered.end]
    epochs = LeaderEpochs([*tiered.epochs, *later])
    epochs.dirty = epochs.entries != local.entries
    return epochs


def _path(folder: str) -> str:
    return f"{folder}/{names.TIERED_PART}"
