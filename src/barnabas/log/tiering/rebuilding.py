"""A compacted log that was lost gets its records back from its copy in an object store.

It is appended to as a follower's, so offsets, epochs and producers are those of the copy. Until all is there, a file in
its folder says that it is not whole: a leader that finds it begins anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from barnabas.log.recovery.snapshots import decode_snapshot
from barnabas.log.segments.segment import Segment
from barnabas.log.tiering.checkpoint import TieredPart, epochs_below

from typing import TYPE_CHECKING

from barnabas.log import names

if TYPE_CHECKING:
    from barnabas.log.log import Log
    from barnabas.log.durable_log import DurableLog


# -- A log that begins at the tiered end: what a follower does that has nothing, or whose next record has left the disk of 

def start_at(
    log: DurableLog, offset: int, log_start: int, epochs: Sequence[tuple[int, int]], producers: bytes
) -> None:
    """See `DurableLog.start_at`. Raises SnapshotError, with nothing changed, if `producers` is no snapshot."""
    created_ms = log.segments.active.created_ms
    known = decode_snapshot(producers, created_ms)
    log.begin_truncation(min(log_start, log.offsets.start))
    log.tiered_checkpoint.remove(log.folder)
    log.segments.remove_all(log.fs)
    log.fs.sync_folder(log.folder)  # or segments would come back above the tiered end, and be believed
    log.snapshots.keep_only(())
    log.snapshots.put(offset, producers, sync=True)
    part = TieredPart(log_start, offset, epochs_below(tuple(epochs), offset))
    log.tiered_checkpoint.write(log.folder, part)
    fresh = Segment.create(log.fs, log.folder, offset, log.open_segments, created_ms)
    log.fs.sync_folder(log.folder)
    log.segments.roll(fresh)
    log.offsets.restart(offset, log_start, offset)
    log.epochs.replace(part.epochs)
    log.producers.restore(known)
    log.producers.known_since = offset
    log.unsynced.add(log.folder)




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
