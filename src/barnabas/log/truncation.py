"""Cutting a log at its end: what a follower does with batches that its leader does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.log.producers import ProducerStates
from barnabas.log.replay import replay_batch, transaction_marker
from barnabas.log.scan import SCAN_CHUNK, walk_headers
from barnabas.log.segment import Segment
from barnabas.log.snapshots import SnapshotFiles

if TYPE_CHECKING:
    from barnabas.log.log import Log


def cut_segments(log: Log, offset: int) -> int:
    """Remove every batch that ends at `offset` or later; the log end that is left.

    From the back to the front, so that a crash in between leaves a log without a gap.
    """
    keep = log.segment_number(offset)
    for segment in reversed(log.segments[keep + 1 :]):
        log.segments.remove(segment)
        remove_segment_now(log, segment)
    last = log.segments[-1]
    found = last.locate(offset)
    if found is not None:
        position, header = found
        last.truncate(position)
        return header.base_offset if position else last.base_offset
    return offset


def remove_segment_now(log: Log, segment: Segment) -> None:
    segment.forget()
    for path in segment.existing_paths():
        log.fs.remove(path)


def rebuild_producers(
    producers: ProducerStates, snapshots: SnapshotFiles, segments: list[Segment], upto: int
) -> None:
    """What was known of the producers at offset `upto`: the nearest snapshot, and the batches since."""
    start = snapshots.load_latest(producers, upto)
    for number, segment in enumerate(segments):
        last = number + 1 == len(segments)
        if last or segments[number + 1].base_offset > start:
            replay_segment(producers, segment, start, upto, note_aborted=False)


def replay_segment(
    producers: ProducerStates, segment: Segment, start: int, upto: int, *, note_aborted: bool
) -> None:
    """Replay the batches of a segment that lie in [start, upto)."""
    found = segment.locate(start) if start > segment.base_offset else (0, None)
    if found is None:
        return
    for position, header in walk_headers(segment.file, found[0], segment.size, SCAN_CHUNK):
        if header.base_offset >= upto:
            return
        if header.producer_id < 0:
            continue
        marker = None
        if header.is_control:
            marker = transaction_marker(segment.file.read(header.size, position), header)
        replay_batch(producers, segment if note_aborted else None, header, header.base_offset, marker)
