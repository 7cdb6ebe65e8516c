"""Logs restored from the object store: restart at the tiered end, and complete restore of a compacted log.

A compacted log is restored with follower appends, so offsets, epochs and producers are those of the copy. Until it is
complete, a marker file in its folder makes a leader start the restore again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from barnabas.log import names
from barnabas.log.recovery.snapshots import decode_snapshot
from barnabas.log.replacing import Replacement, Step
from barnabas.log.tiering.checkpoint import TieredPart, epochs_below
from barnabas.log.truncation import FreshSegment, remove_files

if TYPE_CHECKING:
    from barnabas.log.durable_log import DurableLog
    from barnabas.log.log import Log


# -- Restart at the tiered end -------------------------------------------------------------------------


def start_at(
    log: DurableLog, offset: int, log_start: int, epochs: Sequence[tuple[int, int]], producers: bytes
) -> Replacement:
    """See `DurableLog.start_at`. Raise SnapshotError, with nothing changed, if `producers` is not a snapshot.

    A crash may interrupt the steps on disk (log/replacing.py) anywhere:

        1.  lower recovery point and log start on disk; remove the tiered checkpoint: the log is not tiered now
        2.  remove all segments, last one first: a crash leaves a prefix, and its leader sends it here again
        3.  write and sync the producer snapshot; without segments, recovery drops it
        4.  write `tiered-offset-checkpoint`, with log start and epochs: from here on recovery starts at the tiered end
        5.  create the first segment
    """
    states = decode_snapshot(producers, log.segments.active.created_ms)
    noted_from = min(log_start, log.offsets.start)
    part = TieredPart(log_start, offset, epochs_below(tuple(epochs), offset))
    first_steps = log.begin_truncation(noted_from)
    fresh = FreshSegment(log, offset)
    sync = partial(log.fs.sync_folder, log.folder)
    steps: list[Step] = [
        *first_steps,
        partial(log.tiered_checkpoint.remove, log.folder),
        fresh.remove_old,
        sync,  # or segments above the tiered end could reappear after a crash and be taken as valid
        partial(remove_files, log.fs, log.snapshots.forget_all()),
        partial(log.fs.write_atomic, log.snapshots.path(offset), producers),
        partial(log.tiered_checkpoint.write, log.folder, part),
        fresh.create,
        sync,
    ]
    log.offsets.restart(offset, log_start, offset)
    log.epochs.replace(part.epochs)
    log.producers.restore(states)
    log.producers.log_start_moved(log_start)
    log.producers.known_since = offset

    def complete() -> None:
        log.snapshots.note(offset)
        fresh.use()

    return Replacement(steps, noted_from, complete)


def is_unfinished(log: Log) -> bool:
    return log.fs.exists(_mark(log))


def is_lost(log: Log) -> bool:
    """True if the log is empty or its restore is unfinished."""
    return log.log_end_offset == log.log_start_offset or is_unfinished(log)


def begin(log: Log) -> None:
    """Start a restore: write the marker file and empty the log, at offset 0."""
    with log.storage_errors():
        log.fs.write_atomic(_mark(log), b"")
        log.fs.sync_folder(log.folder)
    if log.log_end_offset:
        log.truncate_fully_and_start_at(0)


def finish(log: Log) -> None:
    log.flush()
    forget(log)


def forget(log: Log) -> None:
    """Remove the marker file: the log is complete, or another replica leads and this one is a prefix of it."""
    with log.storage_errors():
        log.fs.remove(_mark(log))
        log.fs.sync_folder(log.folder)


def _mark(log: Log) -> str:
    return f"{log.folder}/{names.REBUILDING}"
