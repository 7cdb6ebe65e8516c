"""A log that begins at the tiered end: what a follower does that has nothing, or whose next record has left the disk of
its leader. Also a copy of a tiered log for another log dir.

The steps, in an order that a crash may interrupt anywhere:

    1.  recovery point and log start on disk are lowered; the log is no longer tiered: its file is removed
    2.  all segments go, the last one first: a crash leaves an older log, which its leader sends here again
    3.  the producer snapshot, synced; without segments a recovery drops it
    4.  `tiered-offset-checkpoint`, with log start and epochs: from here on a recovery begins at the tiered end
    5.  the first segment
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.log.recovery.snapshots import decode_snapshot
from barnabas.log.segments.segment import Segment
from barnabas.log.tiering.checkpoint import TieredPart, epochs_below

if TYPE_CHECKING:
    from barnabas.log.durable_log import DurableLog


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
