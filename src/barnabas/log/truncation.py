"""Cutting a log at its end: what a follower does with batches that its leader does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.log.producers import ProducerStates
from barnabas.log.replay import replay_batch, transaction_marker
from barnabas.log.scan import SCAN_CHUNK, walk_headers
from barnabas.log.segment import Segment
from barnabas.log.snapshots import SnapshotFiles

if TYPE_CHECKING:
    from barnabas.log.log import Log


class EndCut(NamedTuple):
    """Where a log is going to end: at `position` of the segment that starts at `base_offset`."""

    base_offset: int
    position: int
    log_end: int


def find_cut(segments: list[Segment], offset: int) -> EndCut:
    """The place of the first batch that ends at `offset` or later; the last segment is the one that holds it."""
    last = segments[-1]
    found = last.locate(offset)
    if found is None:
        return EndCut(last.base_offset, last.size, offset)
    position, header = found
    return EndCut(last.base_offset, position, header.base_offset if position else last.base_offset)


def cut_segments(log: Log, cut: EndCut) -> None:
    """Remove what lies behind the cut: from the back to the front, so that a crash leaves no gap."""
    while log.segments[-1].base_offset > cut.base_offset:
        remove_segment_now(log, log.segments.pop())
    last = log.segments[-1]
    if cut.position < last.size:
        last.truncate(cut.position)


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
        if segment.base_offset < upto and (last or segments[number + 1].base_offset > start):
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
