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


def truncate(log: Log, offset: int) -> None:
    """See `Log.truncate_to`."""
    if offset >= log.log_end_offset:
        return
    if offset < log.segments[0].base_offset:
        start_over(log, offset)
        return
    cut = find_cut(log.segments[: log.segment_number(offset) + 1], offset)
    _announce(log, cut.log_end)
    cut_segments(log, cut)
    log.log_end_offset = cut.log_end
    _settle(log)
    log.snapshots.remove_from(log.log_end_offset)
    if not log.producers.are_as_at(
        log.log_end_offset
    ):  # or else a whole segment is walked through for nothing
        rebuild_producers(log.producers, log.snapshots, log.segments, log.log_end_offset)
    log.producers.high_watermark_moved(log.high_watermark)


def start_over(log: Log, offset: int) -> None:
    """See `Log.truncate_fully_and_start_at`."""
    _announce(log, min(offset, log.segments[0].base_offset))
    while log.segments:
        remove_segment_now(log, log.segments.pop())
    fresh = Segment.create(log.fs, log.folder, offset, log.open_segments, log.active.created_ms)
    log.fs.sync_folder(log.folder)  # the name of the segment is all that tells where the log goes on
    log.segments.append(fresh)
    log.log_start_offset = log.log_end_offset = offset
    log.epochs.clear()
    _settle(log)
    log.snapshots.keep_only(())
    log.producers.clear()


def _announce(log: Log, log_end: int) -> None:
    """Nothing may be cut before the recovery point on disk is below it: it would look like damage."""
    log.generation += 1
    log.recovery_point = min(log.recovery_point, log_end)
    log.log_start_offset = min(log.log_start_offset, log_end)
    if log.before_truncation:
        log.before_truncation(log, log_end)


def _settle(log: Log) -> None:
    log.active = log.segments[-1]
    log.size_bytes = sum(segment.size for segment in log.segments)
    log.high_watermark = max(min(log.high_watermark, log.log_end_offset), log.log_start_offset)
    log.epochs.truncate_end(log.log_end_offset)
    log.tail.restart(log.log_end_offset)
    log.unsynced.add(log.folder)


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
    written_ms = segment.modified_ms()
    for position, header in walk_headers(segment.file, found[0], segment.size, SCAN_CHUNK):
        if header.base_offset >= upto:
            return
        if header.producer_id < 0:
            continue
        marker = None
        if header.is_control:
            marker = transaction_marker(segment.file.read(header.size, position), header)
        noting = segment if note_aborted else None
        replay_batch(producers, noting, header, header.base_offset, marker, written_ms)
