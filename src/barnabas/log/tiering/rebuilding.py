"""A compacted log that was lost gets its records back from its copy in an object store.

It is appended to as a follower's, so offsets, epochs and producers are those of the copy. Until all is there, a file in
its folder says that it is not whole: a leader that finds it begins anew.
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


# -- Logs restored from tiered storage ----------------------------------------------------------


def start_at(
    log: DurableLog, offset: int, log_start: int, epochs: Sequence[tuple[int, int]], producers: bytes
) -> Replacement:
    """See `DurableLog.start_at`. Raises SnapshotError, with nothing changed, if `producers` is not a snapshot.

    The steps on the disk (log/replacing.py), in an order that a crash may interrupt anywhere:

        1.  recovery point and log start on disk are lowered; the log is no longer tiered: its file is removed
        2.  all segments go, the last one first: a crash leaves an older log, which its leader sends here again
        3.  the producer snapshot, synced; without segments a recovery drops it
        4.  `tiered-offset-checkpoint`, with log start and epochs: from here on a recovery begins at the tiered end
        5.  the first segment
    """
    known = decode_snapshot(producers, log.segments.active.created_ms)
    noted_from = min(log_start, log.offsets.start)
    part = TieredPart(log_start, offset, epochs_below(tuple(epochs), offset))
    first_steps = log.begin_truncation(noted_from)
    fresh = FreshSegment(log, offset)
    sync = partial(log.fs.sync_folder, log.folder)
    steps: list[Step] = [
        *first_steps,
        partial(log.tiered_checkpoint.remove, log.folder),
        fresh.remove_old,
        sync,  # or segments would come back above the tiered end, and be believed
        partial(remove_files, log.fs, log.snapshots.forget_all()),
        partial(log.fs.write_atomic, log.snapshots.path(offset), producers),
        partial(log.tiered_checkpoint.write, log.folder, part),
        fresh.create,
        sync,
    ]
    log.offsets.restart(offset, log_start, offset)
    log.epochs.replace(part.epochs)
    log.producers.restore(known)
    log.producers.log_start_moved(log_start)
    log.producers.known_since = offset

    def complete() -> None:
        log.snapshots.note(offset)
        fresh.use()

    return Replacement(steps, noted_from, complete)


def is_unfinished(log: Log) -> bool:
    return log.fs.exists(_mark(log))


def is_lost(log: Log) -> bool:
    """Is there nothing in it that counts?"""
    return log.log_end_offset == log.log_start_offset or is_unfinished(log)


def begin(log: Log) -> None:
    """Empty, at offset 0."""
    with log.storage_errors():
        log.fs.write_atomic(_mark(log), b"")
        log.fs.sync_folder(log.folder)
    if log.log_end_offset:
        log.truncate_fully_and_start_at(0)


def finish(log: Log) -> None:
    log.flush()
    forget(log)


def forget(log: Log) -> None:
    """It is whole, or another replica leads, and what is here is the beginning of what that has."""
    with log.storage_errors():
        log.fs.remove(_mark(log))
        log.fs.sync_folder(log.folder)


def _mark(log: Log) -> str:
    return f"{log.folder}/{names.REBUILDING}"
