"""Cutting a log at its end: what a follower does with batches that its leader does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.log.producers import ProducerStates
from barnabas.log.recovery.replay import replay_batch, transaction_marker
from barnabas.log.recovery.snapshots import SnapshotFiles
from barnabas.log.segments.scan import SCAN_CHUNK, walk_headers
from barnabas.log.segments.segment import Segment
from barnabas.log.segments.segment_list import Segments

if TYPE_CHECKING:
    from barnabas.log.durable_log import DurableLog


def truncate(log: DurableLog, offset: int) -> None:
    """See `DurableLog.truncate_to`."""
    if offset >= log.offsets.end:
        return
    if offset < log.segments.base_offset:
        start_over(log, offset, keep_remote=log.is_tiered)
        return
    cut = log.segments.find_cut(offset)
    log.begin_truncation(cut.log_end)
    log.segments.cut(cut, log.fs)
    log.offsets.truncate(cut.log_end)
    log.epochs.truncate_end(cut.log_end)
    log.unsynced.add(log.folder)
    log.snapshots.remove_from(cut.log_end)
    if not log.producers.roll_back(cut.log_end):  # then a whole segment is walked through
        rebuild_producers(log.producers, log.snapshots, log.segments, cut.log_end)
    log.producers.high_watermark_moved(log.offsets.high_watermark)


def start_over(log: DurableLog, offset: int, *, keep_remote: bool = False) -> None:
    """See `DurableLog.truncate_fully_and_start_at`. With `keep_remote`, what is remote below `offset` still counts."""
    created_ms = log.segments.active.created_ms
    if keep_remote:
        log.begin_truncation(offset)
    else:
        log.begin_truncation(min(offset, log.segments.base_offset, log.offsets.start))
        log.tiered_checkpoint.remove(log.folder)
    log.segments.remove_all(log.fs)
    fresh = Segment.create(log.fs, log.folder, offset, log.open_segments, created_ms)
    log.fs.sync_folder(log.folder)  # the name of the segment is all that tells where the log goes on
    log.segments.roll(fresh)
    if keep_remote:
        log.offsets.restart(offset, log.offsets.start, log.offsets.tiered_end)
        log.epochs.truncate_end(offset)
    else:
        log.offsets.restart(offset)
        log.epochs.clear()
    log.unsynced.add(log.folder)
    log.snapshots.keep_only(())
    log.producers.clear()


def rebuild_producers(
    producers: ProducerStates, snapshots: SnapshotFiles, segments: Sequence[Segment] | Segments, upto: int
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
