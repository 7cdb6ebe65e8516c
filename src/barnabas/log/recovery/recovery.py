"""Recovery of an existing log at startup.

The kind of the last shutdown decides how much is checked:

    CLEAN     files, indexes and snapshot are complete; only the log end offset has to be found
    KILLED    the process died, but not the host: the page cache kept every write. Batch headers are read from the
              recovery point on, and the CRC of the last batch, which may be incomplete, is checked
    CRASHED   power failure or kernel panic: every batch from the recovery point on is checked, including its CRC

An invalid batch above the recovery point belongs to a tail that was never flushed: the log is truncated there, and
the report counts the lost bytes. Below the recovery point it is damage: recovery raises DamagedLog and changes nothing.
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
from barnabas.log.local_log import LogState, Unsynced
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
from barnabas.log.recovery.verification import RecoveryReport, ShutdownKind
from barnabas.log.segments.aborted_index import NOTHING_ABORTED, TransactionIndexError
from barnabas.log.segments.scan import SCAN_CHUNK, BadBatch, walk_batches, walk_headers
from barnabas.log.segments.segment import Segment
from barnabas.log.segments.segment_file import OpenSegments
from barnabas.log.tiering.checkpoint import TieredCheckpoint, TieredPart, all_epochs, read_tiered
from barnabas.log.truncation import rebuild_producers, replay_segment
from barnabas.records.batch import BatchHeader, crc_is_right

WALKED_WITHOUT_INDEX = 16 * 1024
"""Reading a shorter segment is as fast as reading its indexes; with thousands of partitions, most are short."""


class Cut(NamedTuple):
    """Truncation point: the log is valid up to `position` of `segment`."""

    segment: Segment
    position: int
    reason: str


class Recovery:
    """Recovers the state of one log from its folder. Single use."""

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        config: LogConfig,
        open_segments: OpenSegments,
        *,
        stop: ShutdownKind,
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
        self._written_ms = 0  # modification time of the segment being scanned
        self._fresh_snapshots: dict[int, bytes] = {}
        self.report = RecoveryReport()

    def run(self) -> LogState:
        """Recover the log. Raise DamagedLog if it must not be served, OSError if the disk fails."""
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
        if self._stop is ShutdownKind.CLEAN:
            self._open_clean()
        else:
            self._scan(self._first_to_scan())
        return self._finish()

    def _read_tiered(self, present: list[str]) -> TieredPart | None:
        """Read the tiered checkpoint, and finish an interrupted truncation below all segments."""
        tiered = read_tiered(self._fs, self._folder, present)
        if tiered is None:
            return None
        self._log_start = max(self._log_start, tiered.log_start)
        self._epochs = all_epochs(tiered, self._epochs)
        if self._segments and self._segments[0].base_offset > max(self._log_start, tiered.end):
            self._check_empty_from(max(self._log_start, tiered.end))
            self.report.cut_reason = "a truncation below all segments was interrupted"
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
                self._folder, f"it has no segments, but was flushed up to offset {self._recovery_point}"
            )

    def _start_at(self, offset: int) -> LogState:
        """Create an empty log. The folder is synced: only the segment's name has the base offset."""
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
        """Index of the segment with the last offset below the recovery point.

        If the recovery point is the end of a segment, its indexes may have been written later and be unsynced.
        """
        last = self._recovery_point - 1
        below = [number for number, segment in enumerate(self._segments) if segment.base_offset <= last]
        return below[-1] if below else 0

    # -- after a clean shutdown ---------------------------------------------------------------------

    def _open_clean(self) -> None:
        try:
            self._next_offset = self._find_end(self._segments[-1])
            self._check_transaction_indexes()
            if self._next_offset in self._snapshots.offsets:
                self._snapshots.load_latest(self._producers, self._next_offset)
            if self._next_offset not in self._snapshots.offsets:
                self._rebuild_producers()
        except BadBatch:
            # A clean shutdown leaves no invalid batch: check everything since the recovery point.
            self._stop = ShutdownKind.CRASHED
            self._scan(self._first_to_scan())

    def _find_end(self, segment: Segment) -> int:
        """Return the log end offset; the index skips all but the last few batches."""
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
        """Rebuild the index: replay up to the segment for the open transactions, then the segment for its markers."""
        producers = ProducerStates()
        segment.replace_aborted(NOTHING_ABORTED)
        rebuild_producers(producers, self._snapshots, self._segments, segment.base_offset)
        replay_segment(producers, segment, segment.base_offset, segment.end_of_range, note_aborted=True)
        segment.replace_aborted(segment.aborted)

    # -- after an unclean shutdown ------------------------------------------------------------------

    def _scan(self, first: int) -> None:
        """Check the segments from index `first` on; truncate at the first invalid batch."""
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
        self._check_nothing_is_missing("the end of the log is missing")

    def _check_transaction_indexes_below(self, first: int) -> None:
        all_segments, self._segments = self._segments, self._segments[:first]
        self._check_transaction_indexes()
        self._segments = all_segments

    def _prepare_producers(self, start: Segment) -> None:
        try:
            rebuild_producers(self._producers, self._snapshots, self._segments, start.base_offset)
        except BadBatch as damage:
            raise DamagedLog(self._folder, str(damage)) from damage

    def _gap_before(self, segment: Segment, previous: Segment) -> Cut | None:
        """Return a cut if batches before the segment are missing: the end of the previous one was never flushed.

        Below the recovery point, gaps come from compaction.
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
        """Take a missing snapshot at a segment's start: retention may delete the segments that could rebuild it."""
        if offset not in self._snapshots.offsets and offset > self._segments[0].base_offset:
            self._fresh_snapshots[offset] = encode_snapshot(self._producers)

    def _batches(self, segment: Segment) -> Iterator[tuple[int, BatchHeader, memoryview | None]]:
        if self._stop is ShutdownKind.CRASHED:
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
        # Gaps come from compaction; below the recovery point also from `repair` or an earlier cleanup.policy.
        gap = header.base_offset > expected >= self._recovery_point and not self._config.compacted
        if header.base_offset < expected or gap:
            raise BadBatch(position, f"offset {header.base_offset} instead of {expected}")

    def _note(self, segment: Segment, position: int, header: BatchHeader, batch: memoryview | None) -> None:
        segment.note_batch(position, header, self._config.index_interval_bytes)
        self._epochs.assign(header.leader_epoch, header.base_offset)
        if header.producer_id >= 0:
            marker = transaction_marker(batch, header) if header.is_control and batch is not None else None
            replay_batch(self._producers, segment, header, header.base_offset, marker, self._written_ms)
        self._next_offset = header.next_offset

    def _cut(self, cut: Cut) -> None:
        """Truncate the log at the cut; the last segment is removed first, so that a crash leaves no gap."""
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
        # Synced, as the removed batches must not reappear after a crash: replicas may have seen the lower log end.
        cut.segment.file.sync()
        self._fs.sync_folder(self._folder)

    def _check_nothing_is_missing(self, what: str) -> None:
        if self._next_offset < self._recovery_point:
            raise DamagedLog(
                self._folder,
                f"{what}; the log is intact up to offset {self._next_offset} only, "
                f"but was flushed up to {self._recovery_point}",
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
        self._check_nothing_is_missing("the end of the log is missing")
        log_end = self._next_offset
        log_start = self._log_start
        if self._tiered is None:
            log_start = max(log_start, self._segments[0].base_offset)
        elif self._tiered.end > log_end:  # offsets above will be reused for other records
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
        clean = self._stop is ShutdownKind.CLEAN
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
        """Files that may not have been synced before an unclean shutdown; the next flush syncs them."""
        scanned = [segment for segment in segments if segment.base_offset >= self._scanned_from]
        files = [path for segment in scanned for path in segment.existing_paths()[1:]]
        files += [self._snapshots.path(offset) for offset in self._snapshots.offsets]
        files += [f"{self._folder}/{names.PARTITION_METADATA}", f"{self._folder}/{names.LEADER_EPOCHS}"]
        return Unsynced([self._folder, os.path.dirname(self._folder)], files)

    def _restart_at(self, log_start: int) -> LogState:
        """Start an empty log at the log start offset: all that was flushed is below it."""
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
        self._fs.sync_folder(self._folder)  # or they could reappear after a crash and be taken as valid
