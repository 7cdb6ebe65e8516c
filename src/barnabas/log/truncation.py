"""Truncation of a log, for batches that its leader does not have, restart at an offset, and rebuilding of producer
states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from barnabas.common.files import File, FileSystem
from barnabas.log import names
from barnabas.log.producers import ProducerStates
from barnabas.log.recovery.replay import replay_batch, transaction_marker
from barnabas.log.recovery.snapshots import SnapshotFiles, decode_snapshot
from barnabas.log.replacing import Replacement, Step, UnsettledSegment
from barnabas.log.rolling_log import RollingLog
from barnabas.log.segments.scan import SCAN_CHUNK, walk_headers
from barnabas.log.segments.segment import Segment
from barnabas.log.segments.segment_list import Segments
from barnabas.log.tiering.checkpoint import TieredPart, epochs_below


def truncate(log: RollingLog, offset: int) -> None:
    """See `DurableLog.truncate_to`."""
    cut = log.segments.find_cut(offset)
    for step in log.begin_truncation(cut.log_end):
        step()
    log.segments.cut(cut, log.fs)
    log.offsets.truncate(cut.log_end)
    log.epochs.truncate_end(cut.log_end)
    log.unsynced.add(log.folder)
    log.snapshots.remove_from(cut.log_end)
    if not log.producers.roll_back(cut.log_end):  # replays a whole segment
        rebuild_producers(log.producers, log.snapshots, log.segments, cut.log_end)
    log.producers.high_watermark_moved(log.offsets.high_watermark)
    log.producers.log_start_moved(log.offsets.start)


def start_over(log: RollingLog, offset: int, *, keep_remote: bool = False) -> Replacement:
    """See `DurableLog.truncate_fully_and_start_at`. With `keep_remote`, remote segments below `offset` are kept.

    The folder is synced last, as only the name of the new segment has the new start offset. Until then the new segment
    is empty, and a crash leaves a prefix of the old segments, or none.
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


def start_at(
    log: RollingLog, offset: int, log_start: int, epochs: Sequence[tuple[int, int]], producers: bytes
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


class FreshSegment:
    """The only segment of a log after a replacement of its files. During it, an `UnsettledSegment` is used."""

    def __init__(self, log: RollingLog, offset: int) -> None:
        created_ms = log.segments.active.created_ms
        arguments = log.fs, log.folder, offset, log.open_segments, created_ms
        self._log = log
        self._file: File | None = None
        self._segment = Segment.planned(*arguments)
        self._before = log.segments.replace_all(UnsettledSegment.planned(*arguments))

    def remove_old(self) -> None:
        """Remove the files of the previous segments, last one first, so that a crash leaves no gap."""
        for segment in reversed(self._before):
            remove_files(self._log.fs, segment.existing_paths())

    def create(self) -> None:
        file = self._log.fs.open(self._segment.path(names.LOG), create=True)
        if file.size:
            file.truncate(0)
        self._file = file

    def use(self) -> None:
        """Switch the log to the new segment, on the event loop, after all steps."""
        assert self._file is not None
        self._segment.use_file(self._file)
        self._log.segments.replace_all(self._segment)
        self._log.unsynced.add(self._log.folder)


def remove_files(fs: FileSystem, paths: Iterable[str]) -> None:
    for path in paths:
        if fs.exists(path):  # the step may be a repetition
            fs.remove(path)


def rebuild_producers(
    producers: ProducerStates, snapshots: SnapshotFiles, segments: Sequence[Segment] | Segments, upto: int
) -> None:
    """Rebuild the producer states at offset `upto` from the latest snapshot and the batches after it."""
    start = snapshots.load_latest(producers, upto)
    for number, segment in enumerate(segments):
        last = number + 1 == len(segments)
        if segment.base_offset < upto and (last or segments[number + 1].base_offset > start):
            replay_segment(producers, segment, start, upto, note_aborted=False)


def replay_segment(
    producers: ProducerStates, segment: Segment, start: int, upto: int, *, note_aborted: bool
) -> None:
    """Replay the batches of a segment in [start, upto)."""
    first = segment.locate(start) if start > segment.base_offset else (0, None)
    if first is None:
        return
    written_ms = segment.modified_ms()
    for position, header in walk_headers(segment.file, first[0], segment.size, SCAN_CHUNK):
        if header.base_offset >= upto:
            return
        if header.producer_id < 0:
            continue
        marker = None
        if header.is_control:
            marker = transaction_marker(segment.file.read(header.size, position), header)
        aborted_index = segment if note_aborted else None
        replay_batch(producers, aborted_index, header, header.base_offset, marker, written_ms)
