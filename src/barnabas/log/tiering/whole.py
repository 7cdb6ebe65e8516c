"""A compacted log whose copy lies in an object store: it stays on this disk as a whole, and does not know of the copy.

What may be copied is given as of one moment: see tiering/whole_copier.py for why.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from barnabas.log.segments.segment import Segment
from barnabas.log.tiering.checkpoint import epochs_below
from barnabas.log.tiering.copying import SegmentToCopy

if TYPE_CHECKING:
    from barnabas.log.durable_log import DurableLog


class WholePart(NamedTuple):
    """A sealed segment with what it stands for. A compaction puts another one in its place, which is never equal."""

    segment: Segment
    base: int
    end: int


def stays_whole(log: DurableLog) -> bool:
    """Is it copied as a whole? A log that has left this disk in part no longer can be."""
    return log.config.remote_storage_enable and log.config.compacted and not log.is_tiered


def whole_parts(log: DurableLog) -> tuple[WholePart, ...]:
    """See `WholeLog.parts`. Compaction may leave nothing of a segment: its neighbour stands for its offsets, too."""
    limit = min(log.last_stable_offset, log.offsets.recovery_point)
    segments = log.segments.since(log.offsets.start)
    parts: list[WholePart] = []
    base = segments[0].base_offset
    for segment, following in pairwise(segments):
        end = following.base_offset
        if end > limit:
            break
        if segment.size:
            parts.append(WholePart(segment, base, end))
            base = end
        elif parts:
            parts[-1] = parts[-1]._replace(end=end)
            base = end
    return tuple(parts)


def to_copy(log: DurableLog, part: WholePart) -> SegmentToCopy | None:
    """To be read in a thread; None if the log no longer has it."""
    segments = log.segments.since(part.segment.base_offset)
    if segments[0] is not part.segment:
        return None
    epochs = epochs_below(log.epochs.entries, part.end)
    return SegmentToCopy(log.fs, log.folder, tuple(segments), part.base, part.end, epochs, log.generation)


def is_still_there(log: DurableLog, copied: SegmentToCopy) -> bool:
    """Are the segments that were read still those of the log? A compaction reuses the names of files."""
    now = set(log.segments)
    return copied.generation == log.generation and all(segment in now for segment in copied.segments)
