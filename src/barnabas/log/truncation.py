"""Cutting a log at its end: what a follower does with batches that its leader does not have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from barnabas.common.files import File, FileSystem
from barnabas.log import names
from barnabas.log.producers import ProducerStates
from barnabas.log.recovery.replay import replay_batch, transaction_marker
from barnabas.log.recovery.snapshots import SnapshotFiles
from barnabas.log.replacing import Replacement, UnsettledSegment
from barnabas.log.segments.scan import SCAN_CHUNK, walk_headers
from barnabas.log.segments.segment import Segment
from barnabas.log.segments.segment_list import Segments

if TYPE_CHECKING:
    from barnabas.log.durable_log import DurableLog


def truncate(log: DurableLog, offset: int) -> None:
    """See `DurableLog.truncate_to`."""
    cut = log.segments.find_cut(offset)
    for step in log.begin_truncation(cut.log_end):
        step()
    log.segments.cut(cut, log.fs)
    log.offsets.truncate(cut.log_end)
    log.epochs.truncate_end(cut.log_end)
    log.unsynced.add(log.folder)
    log.snapshots.remove_from(cut.log_end)
    if not log.producers.roll_back(cut.log_end):  # then a whole segment is walked through
        rebuild_producers(log.producers, log.snapshots, log.segments, cut.log_end)
    log.producers.high_watermark_moved(log.offsets.high_watermark)
    log.producers.log_start_moved(log.offsets.start)


def start_over(log: DurableLog, offset: int, *, keep_remote: bool = False) -> Replacement:
    """See `DurableLog.truncate_fully_and_start_at`. With `keep_remote`, what is remote below `offset` still counts.

    The folder is synced last: the name of the segment is all that tells where the log goes on. Until then there is no
    record in it that could be mixed with older ones, and a crash leaves some of those, up to a gap, or none.
    """
    noted_from = offset if keep_remote else min(offset, log.segments.base_offset, log.offsets.start)
    steps = log.begin_truncation(noted_from)
    if not keep_remote:
        steps.append(partial(log.tiered_checkpoint.remove, log.folder))
    fresh = FreshSegment(log, offset)
    steps += [
        fresh.remove_old,
        partial(remove_files, log.fs, log.snapshots.forget_all()),
        fresh.create,
        partial(log.fs.sync_folder, log.folder),
    ]
    if keep_remote:
        log.offsets.restart(offset, log.offsets.start, log.offsets.tiered_end)
        log.epochs.truncate_end(offset)
    else:
        log.offsets.restart(offset)
        log.epochs.clear()
    log.producers.clear()
    return Replacement(steps, noted_from, fresh.use)


class FreshSegment:
    """The only segment that a log will have when its files are replaced. Until then `UnsettledSegment` is used."""

    def __init__(self, log: DurableLog, offset: int) -> None:
        created_ms = log.segments.active.created_ms
        where = log.fs, log.folder, offset, log.open_segments, created_ms
        self._log = log
        self._file: File | None = None
        self._segment = Segment.planned(*where)
        self._before = log.segments.replace_all(UnsettledSegment.planned(*where))

    def remove_old(self) -> None:
        """The files of those that it had, the last one first: a crash leaves no gap."""
        for segment in reversed(self._before):
            remove_files(self._log.fs, segment.existing_paths())

    def create(self) -> None:
        file = self._log.fs.open(self._segment.path(names.LOG), create=True)
        if file.size:
            file.truncate(0)
        self._file = file

    def use(self) -> None:
        """On the loop, when all steps are done."""
        assert self._file is not None
        self._segment.use_file(self._file)
        self._log.segments.replace_all(self._segment)
        self._log.unsynced.add(self._log.folder)


def remove_files(fs: FileSystem, paths: Iterable[str]) -> None:
    for path in paths:
        if fs.exists(path):  # it may be a repetition
            fs.remove(path)


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
