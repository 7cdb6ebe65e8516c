"""Opening the log of a partition that exists: what is believed, what is checked, what is cut.

How the broker stopped decides how much is looked at:

    CLEAN     it said good-bye: files, indexes and snapshot are complete; only the log end is found again
    KILLED    the process died, the machine did not: the page cache kept every write, so the headers from the
              recovery point on are walked, and the last batch, which may be half written, is checked
    CRASHED   power was lost or the kernel died: every batch from the recovery point on is checked, CRC and all

What is wrong above the recovery point is a tail that never reached the disk: it is cut, and counted in the
report. What is wrong below it was on the disk once, so it is damage: DamagedLog, and nothing is changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from barnabas.common.files import FileSystem
from barnabas.config.topic import LogConfig
from barnabas.log import names
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.failures import DamagedLog
from barnabas.log.flushing import Unsynced
from barnabas.log.local_log import LogState
from barnabas.log.producers import ProducerStates
from barnabas.log.recovery.folder import (
    find_segments,
    offsets_of,
    read_epochs,
    remove_orphans,
    resolve_unfinished,
)
from barnabas.log.recovery.replay import replay_batch, transaction_marker
from barnabas.log.recovery.snapshots import SnapshotFiles, encode_snapshot
from barnabas.log.recovery.verification import RecoveryReport, Stop
from barnabas.log.segments.aborted_index import NOTHING_ABORTED, TransactionIndexError
from barnabas.log.segments.scan import SCAN_CHUNK, BadBatch, walk_batches, walk_headers
from barnabas.log.segments.segment import Segment
from barnabas.log.segments.segment_file import OpenSegments
from barnabas.log.tiering.checkpoint import TieredCheckpoint, TieredPart, all_epochs, read_tiered
from barnabas.log.truncation import rebuild_producers, replay_segment
from barnabas.records.batch import BatchHeader, crc_is_right

WALKED_WITHOUT_INDEX = 16 * 1024
"""A shorter segment is read as fast as its indexes would be; among thousands of partitions most are short."""


class Cut(NamedTuple):
    """The log is sound up to `position` of `segment`; what follows must go."""

    segment: Segment
    position: int
    reason: str


class Recovery:
    """One use: the parts of one log from its folder."""

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        config: LogConfig,
        open_segments: OpenSegments,
        *,
        stop: Stop,
        recovery_point: int,
        log_start: int,
        now_ms: int,
    ) -> None:
        self._fs = fs
        self._folder = folder
        self._config = config
        self._open_segments = open_segments
        self._stop = stop
        self._recovery_point = recovery_point
        self._log_start = log_start
        self._now_ms = now_ms
        self._segments: list[Segment] = []
        self._producers = ProducerStates()
        self._next_offset = 0
        self._scanned_from = 0
        self._written_ms = 0  # no later than this was written what is being scanned
        self._fresh_snapshots: dict[int, bytes] = {}
        self.report = RecoveryReport()

    def run(self) -> LogState:
        """Raises DamagedLog when the log must not be served; OSError when the disk fails."""
        fs, folder = self._fs, self._folder
        present = resolve_unfinished(fs, folder)
        self._segments = find_segments(fs, folder, present, self._open_segments, self._now_ms)
        self._snapshots = SnapshotFiles(fs, folder, offsets_of(present, names.PRODUCER_SNAPSHOT))
        self._with_transaction_index = set(offsets_of(present, names.TRANSACTION_INDEX))
        self._epochs = read_epochs(fs, folder, present, self._segments)
        self._tiered = self._read_tiered(present)
        if not self._segments:
            return self._start_empty()
        remove_orphans(fs, folder, present, self._segments)
        if self._stop is Stop.CLEAN:
            self._open_clean()
        else:
            self._scan(self._first_to_scan())
        return self._finish()

    def _read_tiered(self, present: list[str]) -> TieredPart | None:
        """What is known of the remote part. A cut below all segments that was interrupted is finished."""
        tiered = read_tiered(self._fs, self._folder, present)
        if tiered is None:
            return None
        self._log_start = max(self._log_start, tiered.log_start)
        self._epochs = all_epochs(tiered, self._epochs)
        if self._segments and self._segments[0].base_offset > max(self._log_start, tiered.end):
            self._check_empty_from(max(self._log_start, tiered.end))
            self.report.cut_reason = "the log was going to be cut below all of it"
            self._remove_segments()
            self._segments.clear()
        return tiered

    def _start_empty(self) -> LogState:
        start = self._log_start if self._tiered is None else max(self._log_start, self._tiered.end)
        self._check_empty_from(start)
        return self._start_at(start)

    def _check_empty_from(self, start: int) -> None:
        if self._recovery_point > start:
            raise DamagedLog(
                self._folder, f"it has no segments, but was on the disk up to offset {self._recovery_point}"
            )

    def _start_at(self, offset: int) -> LogState:
        """An empty log, whose first offset survives a crash: it is in the name of the segment only."""
        segment = Segment.create(self._fs, self._folder, offset, self._open_segments, self._now_ms)
        self._fs.sync_folder(self._folder)
        self._recovery_point = offset
        if self._tiered is None:
            self._snapshots.keep_only(())
            return self._parts([segment], offset, offset, LeaderEpochs())
        self._snapshots.keep_only((offset,))
        self._snapshots.load_latest(self._producers, offset)
        self._epochs.truncate_end(offset)
        self._epochs.truncate_start(self._log_start)
        return self._parts([segment], self._log_start, offset, self._epochs)

    def _first_to_scan(self) -> int:
        """The number of the segment with the last record below the recovery point.

        If that is the end of a segment, the segment may have been sealed since, and its indexes be unsynced.
        """
        last = self._recovery_point - 1
        below = [number for number, segment in enumerate(self._segments) if segment.base_offset <= last]
        return below[-1] if below else 0

    # -- after a clean stop -------------------------------------------------------------------------

    def _open_clean(self) -> None:
        try:
            self._next_offset = self._find_end(self._segments[-1])
            self._check_transaction_indexes()
            if self._next_offset in self._snapshots.offsets:
                self._snapshots.load_latest(self._producers, self._next_offset)
            if self._next_offset not in self._snapshots.offsets:
                self._rebuild_producers()
        except BadBatch:
            # Not what a clean stop leaves behind: look at everything since the recovery point.
            self._stop = Stop.CRASHED
            self._scan(self._first_to_scan())

    def _find_end(self, segment: Segment) -> int:
        """The log end: the index leads to the last few batches."""
        end = segment.base_offset
        if not segment.size:
            return end
        position = 0
        if segment.size > WALKED_WITHOUT_INDEX and len(segment.offset_index):
            position = segment.offset_index.positions[-1]
        for _, header in walk_headers(segment.file, position, segment.size):
            end = header.next_offset
        return end

    def _rebuild_producers(self) -> None:
        rebuild_producers(self._producers, self._snapshots, self._segments, self._next_offset)

    def _check_transaction_indexes(self) -> None:
        for segment in self._segments:
            if segment.base_offset not in self._with_transaction_index:
                continue
            try:
                _ = segment.aborted
            except TransactionIndexError:
                self._rebuild_transaction_index(segment)

    def _rebuild_transaction_index(self, segment: Segment) -> None:
        """Replay up to the segment, then through it: markers say what was aborted, the replay says since when."""
        producers = ProducerStates()
        segment.replace_aborted(NOTHING_ABORTED)
        rebuild_producers(producers, self._snapshots, self._segments, segment.base_offset)
        replay_segment(producers, segment, segment.base_offset, segment.end_of_range, note_aborted=True)
        segment.replace_aborted(segment.aborted)

    # -- after an unclean stop ----------------------------------------------------------------------

    def _scan(self, first: int) -> None:
        """Check the segments from number `first` on; cut at the first batch that is wrong."""
        start = self._segments[first]
        self._scanned_from = self._next_offset = start.base_offset
        self._check_transaction_indexes_below(first)
        self._prepare_producers(start)
        previous = start
        for segment in self._segments[first:]:
            cut = self._gap_before(segment, previous) or self._scan_segment(segment)
            previous = segment
            if cut is not None:
                self._cut(cut)
                return
        self._check_nothing_is_missing("the file ends too early")

    def _check_transaction_indexes_below(self, first: int) -> None:
        everything, self._segments = self._segments, self._segments[:first]
        self._check_transaction_indexes()
        self._segments = everything

    def _prepare_producers(self, start: Segment) -> None:
        try:
            rebuild_producers(self._producers, self._snapshots, self._segments, start.base_offset)
        except BadBatch as damage:
            raise DamagedLog(self._folder, str(damage)) from damage

    def _gap_before(self, segment: Segment, previous: Segment) -> Cut | None:
        """A segment starts where the one before ends, unless the end of that one never reached the disk.

        Below the recovery point a gap is the work of compaction.
        """
        if segment.base_offset > self._next_offset >= self._recovery_point and segment is not previous:
            return Cut(
                previous, previous.size, f"the batches before offset {segment.base_offset} are missing"
            )
        return None

    def _scan_segment(self, segment: Segment) -> Cut | None:
        position = 0
        self._next_offset = max(self._next_offset, segment.base_offset)
        self._keep_snapshot(segment.base_offset)
        self._written_ms = segment.modified_ms()
        segment.start_indexes()
        try:
            for at, header, batch in self._batches(segment):
                position = at
                self._check_order(at, header)
                self._note(segment, at, header, batch)
                position = at + header.size
        except BadBatch as bad:
            return Cut(segment, bad.position, bad.reason)
        finally:
            self.report.scanned_bytes += position
        return None

    def _keep_snapshot(self, offset: int) -> None:
        """A segment without a snapshot at its start could not be recovered once those before it are deleted."""
        if offset not in self._snapshots.offsets and offset > self._segments[0].base_offset:
            self._fresh_snapshots[offset] = encode_snapshot(self._producers)

    def _batches(self, segment: Segment) -> Iterator[tuple[int, BatchHeader, memoryview | None]]:
        if self._stop is Stop.CRASHED:
            yield from walk_batches(segment.file, 0, segment.size)
            return
        last = segment is self._segments[-1]
        for position, header in walk_headers(segment.file, 0, segment.size, SCAN_CHUNK):
            at_end = position + header.size == segment.size
            needed = (last and at_end) or header.is_control
            data = memoryview(segment.file.read(header.size, position)) if needed else None
            if data is not None and not crc_is_right(data, 0, header.size):
                raise BadBatch(position, "a batch with a wrong checksum")
            yield position, header, data

    def _check_order(self, position: int, header: BatchHeader) -> None:
        expected = self._next_offset
        # Only compaction leaves gaps, and never in what was appended a moment ago.
        gap = header.base_offset > expected >= self._recovery_point and not self._config.compacted
        if header.base_offset < expected or gap:
            raise BadBatch(position, f"offset {header.base_offset} where {expected} must follow")

    def _note(self, segment: Segment, position: int, header: BatchHeader, batch: memoryview | None) -> None:
        segment.note_batch(position, header, self._config.index_interval_bytes)
        self._epochs.assign(header.leader_epoch, header.base_offset)
        if header.producer_id >= 0:
            marker = transaction_marker(batch, header) if header.is_control and batch is not None else None
            replay_batch(self._producers, segment, header, header.base_offset, marker, self._written_ms)
        self._next_offset = header.next_offset

    def _cut(self, cut: Cut) -> None:
        """Remove what follows the sound part; the last segments first, so that no crash leaves a gap."""
        where = f"{cut.reason} at position {cut.position} of {cut.segment.path(names.LOG)}"
        self._check_nothing_is_missing(where)
        keep = self._segments.index(cut.segment)
        self.report.cut_reason = where
        self._count(cut.segment, cut.position)
        for segment in self._segments[:keep:-1]:
            self._count(segment, 0)
            segment.forget()
            for path in segment.existing_paths():
                self._fs.remove(path)
        del self._segments[keep + 1 :]
        cut.segment.file.truncate(cut.position)
        cut.segment.size = cut.position
        # What was cut must not come back with the next crash: others may have been told that it is gone.
        cut.segment.file.sync()
        self._fs.sync_folder(self._folder)

    def _check_nothing_is_missing(self, what: str) -> None:
        if self._next_offset < self._recovery_point:
            raise DamagedLog(
                self._folder,
                f"{what}; the log is sound up to offset {self._next_offset} only, "
                f"but was on the disk up to {self._recovery_point}",
            )

    def _count(self, segment: Segment, position: int) -> None:
        self.report.cut_bytes += segment.size - position
        try:
            for _ in walk_headers(segment.file, position, segment.size, SCAN_CHUNK):
                self.report.cut_batches += 1
        except BadBatch:
            return

    # -- the result ---------------------------------------------------------------------------------

    def _finish(self) -> LogState:
        self._producers.loaded_ms = self._now_ms
        self._check_nothing_is_missing("the file ends too early")
        log_end = self._next_offset
        log_start = self._log_start
        if self._tiered is None:
            log_start = max(log_start, self._segments[0].base_offset)
        elif self._tiered.end > log_end:  # what is appended there from now on is not what was copied
            self._tiered = self._tiered.cut(log_end)
            TieredCheckpoint(self._fs).write(self._folder, self._tiered)
        if log_start > log_end:
            return self._restart_at(log_start)
        self._epochs.truncate_end(log_end)
        self._epochs.truncate_start(log_start)
        bases = {segment.base_offset for segment in self._segments}
        for offset, data in self._fresh_snapshots.items():
            self._snapshots.put(offset, data)
        self._snapshots.keep_only(
            offset for offset in self._snapshots.offsets if offset in bases or offset == log_end
        )
        self._snapshots.remove_from(log_end)
        for segment in self._segments[:-1]:
            segment.seal_if_unsaved()
        return self._parts(self._segments, log_start, log_end, self._epochs)

    def _parts(self, segments: list[Segment], log_start: int, log_end: int, epochs: LeaderEpochs) -> LogState:
        clean = self._stop is Stop.CLEAN
        return LogState(
            segments,
            log_start,
            log_end,
            min(self._recovery_point, log_end),
            self._producers,
            epochs,
            self._snapshots,
            Unsynced() if clean else self._possibly_unsynced(segments),
            self._tiered,
        )

    def _possibly_unsynced(self, segments: list[Segment]) -> Unsynced:
        """After an unclean stop nobody knows what has reached the disk; the next flush makes sure of it."""
        scanned = [segment for segment in segments if segment.base_offset >= self._scanned_from]
        files = [path for segment in scanned for path in segment.existing_paths()[1:]]
        files += [self._snapshots.path(offset) for offset in self._snapshots.offsets]
        files += [f"{self._folder}/{names.PARTITION_METADATA}", f"{self._folder}/{names.LEADER_EPOCHS}"]
        return Unsynced([self._folder, os.path.dirname(self._folder)], files)

    def _restart_at(self, log_start: int) -> LogState:
        """Records were deleted up to here, and nothing above reached the disk: go on, empty."""
        self._producers.clear()
        parts = self._start_at(log_start)
        self._remove_segments()
        return parts

    def _remove_segments(self) -> None:
        for segment in reversed(self._segments):
            self._count(segment, 0)
            segment.forget()
            for path in segment.existing_paths():
                self._fs.remove(path)
        self._fs.sync_folder(self._folder)  # or they would come back, and be believed
