"""One compaction, in the worker process: find the last offset of every key, then copy the retained records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from barnabas.common.errors import KafkaError
from barnabas.common.files import Bytes, FileSystem
from barnabas.log import names
from barnabas.log.compaction.candidates import (
    NO_DATA,
    CleanedGroup,
    CompactionPlan,
    CompactionResult,
    SourceSegment,
)
from barnabas.log.compaction.keys import KeyMap
from barnabas.log.compaction.retained_records import RetainedRecords, RetentionCriteria, keep_at, keep_by_key
from barnabas.log.compaction.transactions import CompactedTransactions
from barnabas.log.compaction.writer import CleanedSegment
from barnabas.log.segments.aborted_index import AbortedTransaction, TransactionIndexError, decode_aborted
from barnabas.log.segments.scan import BadBatch, walk_batches
from barnabas.records import assemble_batch, read_varint, record_data, varint
from barnabas.records.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
)

# -- Batches rebuilt from the retained records ---------------------------------------------------------

_MIN_TIMESTAMP, _MAX_TIMESTAMP = -(1 << 63), (1 << 63) - 1
_KINDS = TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


def delete_horizon(header: BatchHeader) -> int | None:
    """Time from which the tombstones or the marker in the batch may be removed (KIP-534); None if not set yet."""
    return header.base_timestamp if header.attributes & DELETE_HORIZON_BIT else None


def empty_batch(header: BatchHeader) -> bytearray:
    """Return the header without records, in the same form as Kafka's cleaner."""
    bare = header._replace(attributes=header.attributes & _KINDS, base_timestamp=NO_TIMESTAMP, record_count=0)
    return assemble_batch(bare, b"")


def rebuilt_batch(header: BatchHeader, kept: RetainedRecords, horizon: int | None = None) -> bytearray:
    """Return a batch of the retained records at their offsets; `horizon` becomes its delete horizon."""
    runs = kept.runs
    if not header.is_log_append_time:
        header = header._replace(max_timestamp=_clamp(header.base_timestamp + kept.largest_timestamp))
    if horizon is not None:
        # The horizon is stored as the base timestamp, to which the records' timestamps are relative.
        shift = header.base_timestamp - horizon
        runs = [_shift_timestamps(run, shift) for run in runs]
        header = header._replace(attributes=header.attributes | DELETE_HORIZON_BIT, base_timestamp=horizon)
    return assemble_batch(header._replace(record_count=kept.record_count), b"".join(runs))


def _clamp(timestamp: int) -> int:
    """Limit a timestamp to 64 bits: clients may send extreme values, and sums may overflow."""
    return min(max(timestamp, _MIN_TIMESTAMP), _MAX_TIMESTAMP)


def _shift_timestamps(run: bytes, shift: int) -> bytes:
    """Return the records with `shift` added to their timestamps."""
    records = bytearray()
    position = 0
    while position < len(run):
        length, start = read_varint(run, position)
        timestamp, after = read_varint(run, start + 1)
        position = start + length
        body = run[start : start + 1] + varint(_clamp(timestamp + shift)) + run[after:position]
        records += varint(len(body)) + body
    return bytes(records)


PAUSE_EVERY = 1 << 20
"""Bytes between two calls of `pause`; takes about ten milliseconds at most."""

Pause = Callable[[int], None]
"""Takes the number of bytes read since the last call; sleeps to limit the rate, or raises to cancel."""


class CompactionFailed(Exception):  # noqa: N818 - the end of a compaction, which is not always an error
    """The log cannot be compacted; it is unchanged."""


MALFORMED = (IndexError, ValueError, KafkaError)
"""Exceptions that parsing malformed records raises."""


def _failure(header: BatchHeader, error: Exception) -> CompactionFailed:
    return CompactionFailed(f"the batch at offset {header.base_offset} cannot be read: {error}")


def compact(
    plan: CompactionPlan, fs: FileSystem, pause: Pause, ready: Callable[[CleanedGroup], None]
) -> CompactionResult:
    """Compact a log. `ready` is called with each group whose new segment is complete and synced."""
    return _Compaction(plan, fs, pause).run(ready)


class _Compaction:
    def __init__(self, plan: CompactionPlan, fs: FileSystem, pause: Pause) -> None:
        self._plan = plan
        self._fs = fs
        self._pause = pause
        self._keys = KeyMap(plan.key_memory_bytes, origin=plan.sources[0].base_offset)
        self._cleaned_upto = plan.upper
        self._last_offsets = {end.producer_id: end for end in plan.producers}
        self._bytes_read = self._bytes_kept = 0
        self._records_read = self._records_kept = 0
        self._until_pause = PAUSE_EVERY
        self._changed = False

    def run(self, ready: Callable[[CleanedGroup], None]) -> CompactionResult:
        started = time.monotonic()
        plan = self._plan
        aborted = self._read_aborted()
        self._collect_keys(
            CompactedTransactions(entry for entry in aborted if entry.last_offset >= plan.first_dirty)
        )
        self._transactions = CompactedTransactions(aborted)
        self._copy_all(ready)
        return CompactionResult(
            self._cleaned_upto,
            self._bytes_read,
            self._bytes_kept,
            self._records_read,
            self._records_kept,
            time.monotonic() - started,
            self._keys.used,
        )

    def _read_aborted(self) -> list[AbortedTransaction]:
        """Aborted transactions that started below the upper bound, including those that end above it."""
        aborted = list(self._plan.aborted_in_active)
        bases = [source.base_offset for source in self._plan.sources] + self._plan.later_segments
        for base_offset in bases:
            path = names.path_of(self._plan.folder, base_offset, names.TRANSACTION_INDEX)
            if self._fs.exists(path):
                try:
                    aborted += decode_aborted(self._fs.read_bytes(path))
                except TransactionIndexError as error:
                    raise CompactionFailed(f"{path}: {error}") from error
        return [entry for entry in aborted if entry.first_offset < self._plan.upper]

    # -- first pass ---------------------------------------------------------------------------------

    def _collect_keys(self, transactions: CompactedTransactions) -> None:
        keys, first_dirty = self._keys, self._plan.first_dirty
        for header, batch in self._dirty_batches():
            if header.is_control:
                transactions.is_done(header, batch)
            elif header.last_offset >= first_dirty and not transactions.is_aborted(header):
                if not keys.has_room_for(header.record_count, header.last_offset):
                    self._cleaned_upto = header.base_offset
                    break
                self._note_keys(header, batch)
        keys.finish()

    def _note_keys(self, header: BatchHeader, batch: memoryview) -> None:
        try:
            data = record_data(batch, header)
            self._keys.note(data, header.record_count, header.base_offset, header.last_offset)
        except MALFORMED as error:
            raise _failure(header, error) from error

    def _dirty_batches(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        for source, end in self._plan.ranges():
            if end > self._plan.first_dirty:
                yield from self._batches(source)

    def _batches(self, source: SourceSegment) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield every batch of a segment, with its CRC checked."""
        path = names.path_of(self._plan.folder, source.base_offset, names.LOG)
        file = self._fs.open(path)
        try:
            for _, header, batch in walk_batches(file, 0, source.size):
                yield header, batch
                self._maybe_pause(header.size)
        except BadBatch as bad:
            raise CompactionFailed(f"{bad} of {path}") from bad
        finally:
            file.close()

    def _maybe_pause(self, size: int) -> None:
        self._until_pause -= size
        if self._until_pause <= 0:
            self._pause(PAUSE_EVERY - self._until_pause)
            self._until_pause = PAUSE_EVERY

    # -- second pass --------------------------------------------------------------------------------

    def _copy_all(self, ready: Callable[[CleanedGroup], None]) -> None:
        """Write the retained batches into new segments; merge sources while the next one is certain to fit."""
        group: list[SourceSegment] = []
        for source, end in self._plan.ranges():
            if source.base_offset >= self._cleaned_upto:
                break
            if group and not self._plan.fits(group[0].base_offset, self._output.size + source.size, end):
                self._finish(group, ready)
                group = []
            if not group:
                self._start(source)
            group.append(source)
            self._changed = self._changed or len(group) > 1
            self._copy_from(source)
        if group:
            self._finish(group, ready)

    def _start(self, source: SourceSegment) -> None:
        plan = self._plan
        self._output = CleanedSegment(self._fs, plan.folder, source.base_offset, plan.index_interval_bytes)
        self._changed = False

    def _copy_from(self, source: SourceSegment) -> None:
        self._bytes_read += source.size
        try:
            for header, batch in self._batches(source):
                self._copy(header, batch)
        except BaseException:
            self._output.discard()
            raise

    def _finish(self, group: list[SourceSegment], ready: Callable[[CleanedGroup], None]) -> None:
        """Complete the new segment; discard it if it is equal to the old one."""
        output, aborted = self._output, self._transactions.take_index()
        self._bytes_kept += output.size
        if not self._changed:
            output.discard()
            return
        try:
            output.finish(aborted)
            self._fs.sync_folder(self._plan.folder)
        except BaseException:
            output.discard()
            raise
        ready(CleanedGroup(group, output.size))

    def _copy(self, header: BatchHeader, batch: memoryview) -> None:
        self._records_read += header.record_count
        try:
            retained = self._retain(header, batch)
        except MALFORMED as error:
            raise _failure(header, error) from error
        if retained is batch:
            self._output.append(batch, header)
            self._records_kept += header.record_count
            return
        if retained is None and self._must_keep_header(header):
            retained = empty_batch(header)
        if retained is not None:
            self._output.append(retained)
        self._changed = self._changed or retained != batch

    def _retain(self, header: BatchHeader, batch: memoryview) -> Bytes | None:
        """Return the batch itself, or one with fewer records; None if no record is retained."""
        if header.is_control:
            return self._retain_marker(header, batch)
        if self._transactions.is_aborted(header) or not header.record_count:
            return None
        if header.base_offset >= self._cleaned_upto:
            return batch
        return self._retain_records(header, batch)

    def _retain_marker(self, header: BatchHeader, batch: memoryview) -> Bytes | None:
        is_done = self._transactions.is_done(header, batch)
        if not header.record_count:
            return None
        horizon = delete_horizon(header)
        if not is_done or (horizon is not None and horizon > self._plan.now_ms):
            return batch
        if horizon is not None:
            return None
        marker = keep_at(record_data(batch, header), [0])
        return self._rebuild(header, marker, self._new_horizon)

    def _retain_records(self, header: BatchHeader, batch: memoryview) -> Bytes | None:
        positions = self._positions(header)
        if positions is None:
            return self._choose_by_key(header, batch)
        if len(positions) == header.record_count:
            return batch
        return self._rebuild(header, keep_at(record_data(batch, header), positions)) if positions else None

    def _positions(self, header: BatchHeader) -> list[int] | None:
        """Positions of the last records of their keys in a batch; None if the first pass did not record them all."""
        if header.base_offset < self._plan.first_dirty or header.base_offset in self._keys.irregular:
            return None
        return self._keys.survivors_in(header.base_offset, header.last_offset)

    def _choose_by_key(self, header: BatchHeader, batch: memoryview) -> Bytes | None:
        horizon = delete_horizon(header)
        keeps_tombstones = horizon is None or self._plan.now_ms < horizon
        choice = RetentionCriteria(self._keys, self._cleaned_upto, keeps_tombstones)
        kept = keep_by_key(record_data(batch, header), header.record_count, header.base_offset, choice)
        if not kept.record_count:
            return None
        needs_horizon = kept.has_tombstones and horizon is None
        if kept.record_count == header.record_count and not needs_horizon:
            return batch
        return self._rebuild(header, kept, self._new_horizon if needs_horizon else None)

    def _rebuild(self, header: BatchHeader, kept: RetainedRecords, horizon: int | None = None) -> bytearray:
        self._records_kept += kept.record_count
        return rebuilt_batch(header, kept, horizon)

    @property
    def _new_horizon(self) -> int:
        return self._plan.now_ms + self._plan.delete_retention_ms

    def _must_keep_header(self, header: BatchHeader) -> bool:
        """True for the last batch below the upper bound, and for the batch with a producer's last sequence or epoch."""
        if header.next_offset == self._plan.upper:
            return True
        end = self._last_offsets.get(header.producer_id)
        if end is None:
            return False
        if end.last_offset == NO_DATA:
            return header.is_control and header.producer_epoch == end.epoch
        return header.last_offset == end.last_offset
