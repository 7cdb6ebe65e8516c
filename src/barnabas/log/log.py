"""The log of one partition.

The words, used everywhere alike, in the order in which they stand in a log:

- *log start*: the first offset that may be read. Retention and DeleteRecords move it up.
- *recovery point*, also *flushed offset*: everything below is known to be on the disk (fsynced). Only a completed
  flush moves it up; a truncation moves it down. Recovery believes what is below it and checks the rest.
- *last stable offset* (LSO): no transaction below it is undecided. Readers of committed data stop here.
- *high watermark* (HW): everything below is on all in-sync replicas. Replication moves it; consumers stop here.
- *log end* (LEO): the offset that the next record will get. Appends move it.

    log start <= LSO <= high watermark <= log end, and recovery point <= log end

The bytes of a partition are split into segments; the last one is active and grows. All of this is owned by
one thread; only `FlushJob.run` may run elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from operator import itemgetter
from typing import NamedTuple, TypeVar

from barnabas.config.topic import LogConfig
from barnabas.errors import ErrorCode, KafkaError
from barnabas.files import File, FileSystem
from barnabas.log import inspection
from barnabas.log.checks import (
    check_follows,
    check_from_client,
    check_in_transaction,
    checked_header,
    too_large,
)
from barnabas.log.committed import read_committed
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.failures import DISK_FULL, DamagedLog, DiskFull, LogDirError
from barnabas.log.flushing import FlushJob, Unsynced, closing_job, flush_job
from barnabas.log.gate import Gate
from barnabas.log.inspection import Inspected
from barnabas.log.open_segments import OpenSegments
from barnabas.log.producers import ProducerStates, RememberedBatch
from barnabas.log.reading import out_of_range, read_slice
from barnabas.log.replay import replay_batch, transaction_marker
from barnabas.log.retention import apply_retention
from barnabas.log.scan import BadBatch
from barnabas.log.searching import (
    FoundRecord,
    aborted_between,
    first_at_or_after,
    latest,
    number_in,
    place_in,
)
from barnabas.log.segment import MAX_RELATIVE_OFFSET, Segment
from barnabas.log.slices import EMPTY, FileSlice, Slice
from barnabas.log.snapshots import SnapshotFiles
from barnabas.log.tail import Tail
from barnabas.log.truncation import start_over, truncate
from barnabas.records.batch import (
    CONTROL_BIT,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    iterate_headers,
    read_header,
    stamp,
    stamp_log_append_time,
)
from barnabas.types import TopicPartition, Uuid

__all__ = ["EMPTY", "AppendResult", "FileSlice", "FlushJob", "Log", "LogParts", "Origin"]

NO_APPEND_TIME = -1
SEGMENTS_BY_RECORD_TIME = 256  # five years by the week: a backfill, with Kafka's segment.ms
WORTH_A_SEGMENT = 1 << 20

T = TypeVar("T")


class Origin(Enum):
    """Who wrote a batch that a leader appends: coordinators may do what clients may not."""

    CLIENT = "client"
    TRANSACTION = "transaction"  # a client, for a partition that is part of its transaction
    COORDINATOR = "coordinator"


class AppendResult(NamedTuple):
    first_offset: int
    last_offset: int
    log_append_time: int  # -1 unless the topic has LogAppendTime
    duplicate: bool


class LogParts(NamedTuple):
    """What a log consists of when it starts to work: fresh, or as recovery found it."""

    segments: list[Segment]
    log_start: int
    log_end: int
    recovery_point: int
    producers: ProducerStates
    epochs: LeaderEpochs
    snapshots: SnapshotFiles
    unsynced: Unsynced


class Log:
    """See the words at the top of this module. Errors are KafkaErrors; after one, nothing has changed."""

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        parts: LogParts,
        *,
        gate: Gate,
        open_segments: OpenSegments,
        roll_jitter: float = 0.0,
    ) -> None:
        self.fs = fs
        self.folder = folder
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.segments = parts.segments
        self.active = parts.segments[-1]
        self.log_start_offset = parts.log_start
        self.log_end_offset = parts.log_end
        self.high_watermark = parts.log_start
        self.recovery_point = parts.recovery_point
        self.producers = parts.producers
        self.epochs = parts.epochs
        self.snapshots = parts.snapshots
        self.size_bytes = sum(segment.size for segment in parts.segments)
        self.is_abandoned = False
        """The files are no longer ours: the partition was deleted, or its disk has failed."""
        self.generation = 0
        """Grows whenever bytes are cut: flushes and compactions that were prepared before are void."""
        self.last_flush_ms = 0
        """When flush.ms was last counted from."""
        self.on_flush_wanted: Callable[[Log], None] | None = None
        """Told when a segment was sealed or flush.messages is reached: a good moment for a flush."""
        self.before_truncation: Callable[[Log, int], None] | None = None
        """Told, with the new log end, before bytes are cut. The new recovery point must be on disk first."""
        self.garbage: list[tuple[int, str]] = []
        """(when, path) of files to be removed later."""
        self.gate = gate
        self.open_segments = open_segments
        self._roll_jitter = roll_jitter
        self.tail = Tail(parts.log_end)
        self.unsynced = parts.unsynced
        self.producers.high_watermark_moved(self.high_watermark)
        self.update_config(config)

    def update_config(self, config: LogConfig) -> None:
        """New settings are in force from the next append on."""
        self.config = config
        self._inspects = inspection.is_needed(config)
        inspection.prepare(config)
        self._stamps_time = config.message_timestamp_type == inspection.LOG_APPEND_TIME
        self._largest_data = inspection.largest_data(config)
        self._after_max_ms = config.message_timestamp_after_max_ms
        self._largest_batch = min(config.max_message_bytes, config.segment_bytes)
        # With Kafka's defaults a segment is full long before its indexes are: no need to look at every append.
        most_entries = config.segment_bytes // max(config.index_interval_bytes, 1) + 1
        self._indexes_can_fill = most_entries >= config.segment_index_bytes // 12 - 1
        roll_ms = config.segment_ms
        if config.compacted:  # the active segment is never compacted, so it must not wait for too long
            roll_ms = min(roll_ms, config.max_compaction_lag_ms)
        self._roll_after_ms = roll_ms - int(self._roll_jitter * min(config.segment_jitter_ms, roll_ms))

    # -- appending ----------------------------------------------------------------------------------

    def append_as_leader(
        self,
        batch: memoryview,
        leader_epoch: int,
        now_ms: int,
        *,
        origin: Origin = Origin.CLIENT,
        inspected: Inspected | None = None,
    ) -> AppendResult:
        """Give the batch its offsets and append it. Its bytes are stamped in place and not kept.

        Raises Unchecked when it must be looked at first, and that takes long (`log/inspection.py`); the result of that
        is `inspected`.
        """
        gate = self.gate
        if gate.error is not None or now_ms >= gate.check_at_ms:
            gate.check(now_ms)
        header = checked_header(batch, self._largest_data)
        if origin is Origin.CLIENT:
            check_from_client(header)
        elif origin is Origin.TRANSACTION:
            check_in_transaction(header)
        if len(batch) > self._largest_batch:
            raise too_large(len(batch), self.config)
        if (
            self._inspects
            or header.attributes & TIMESTAMP_TYPE_BIT
            or not 0 <= header.base_timestamp <= header.max_timestamp <= now_ms + self._after_max_ms
        ):
            batch, header = self._inspect(batch, header, now_ms, origin, inspected)
        if header.producer_id >= 0:
            return self._append_of_producer(batch, header, leader_epoch, now_ms)
        return self._append_next(batch, header, leader_epoch, now_ms)

    def _inspect(
        self,
        batch: memoryview,
        header: BatchHeader,
        now_ms: int,
        origin: Origin,
        inspected: Inspected | None,
    ) -> tuple[memoryview, BatchHeader]:
        if inspected is None or inspected.config is not self.config:
            ours = origin is Origin.COORDINATOR  # nobody needs to check records that we have just built
            inspected = inspection.inspect(batch, header, self.config, now_ms, trusted=ours, at_once=not ours)
        batch, header, _ = inspected
        if len(batch) > self._largest_batch:  # it may be compressed in another way now
            raise too_large(len(batch), self.config)
        if self._stamps_time:
            stamp_log_append_time(batch, 0, header.size, now_ms)
            header = read_header(batch)
        return batch, header

    def _append_of_producer(
        self, batch: memoryview, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> AppendResult:
        if header.attributes & CONTROL_BIT:
            return self._append_marker(batch, header, leader_epoch, now_ms)
        original = self.producers.check(header)
        if original is not None:
            return self._duplicate(original)
        result = self._append_next(batch, header, leader_epoch, now_ms)
        self.producers.remember(header, result.first_offset, now_ms)
        return result

    def _append_marker(
        self, batch: memoryview, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> AppendResult:
        marker = transaction_marker(batch, header)
        if marker is not None:
            self.producers.check_marker(header, marker.coordinator_epoch)
        result = self._append_next(batch, header, leader_epoch, now_ms)
        replay_batch(self.producers, self.active, header, result.first_offset, marker, now_ms)
        return result

    def _append_next(
        self, batch: memoryview, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> AppendResult:
        first_offset = self.log_end_offset
        last_offset = first_offset + header.last_offset_delta
        stamp(batch, 0, first_offset, header.length, leader_epoch)
        self._write(batch, last_offset, header.max_timestamp, now_ms)
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, first_offset)
        return AppendResult(first_offset, last_offset, now_ms if self._stamps_time else NO_APPEND_TIME, False)

    def _write(self, batch: memoryview, last_offset: int, max_timestamp: int, now_ms: int) -> None:
        size = len(batch)
        segment = self.active
        if self._must_roll(segment, size, last_offset, max_timestamp, now_ms):
            self.roll(now_ms)
            segment = self.active
        position = segment.size
        try:
            segment.append(batch, size, last_offset, max_timestamp, self.config.index_interval_bytes)
        except OSError as error:
            raise self.failed(error) from error
        self.tail.add(last_offset, position)
        self.log_end_offset = last_offset + 1
        self.size_bytes += size
        if last_offset - self.recovery_point >= self.config.flush_messages and self.on_flush_wanted:
            self.on_flush_wanted(self)

    def append_as_follower(self, batches: memoryview, now_ms: int = 0) -> AppendResult:
        """Append batches as the leader sent them: offsets, epochs and timestamps are its own."""
        self.gate.check(now_ms)
        first_offset = self.log_end_offset
        for position, header in iterate_headers(batches):
            batch = batches[position : position + header.size]
            if header.base_offset < self.log_end_offset <= header.last_offset and not self.size_bytes:
                # DeleteRecords has moved the leader's log start into a batch; the batch is taken whole, as in Kafka.
                self.truncate_fully_and_start_at(header.base_offset)
            check_follows(batch, header, self.log_end_offset)
            marker = (
                transaction_marker(batch, header) if header.is_control and header.producer_id >= 0 else None
            )
            self._write(batch, header.last_offset, header.max_timestamp, now_ms)
            self.epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                replay_batch(self.producers, self.active, header, header.base_offset, marker, now_ms)
        if self.log_end_offset == first_offset:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"there is no whole batch in the {len(batches)} bytes from the leader",
            )
        return AppendResult(first_offset, self.log_end_offset - 1, NO_APPEND_TIME, False)

    def _duplicate(self, original: RememberedBatch) -> AppendResult:
        append_time = original.timestamp if self._stamps_time else NO_APPEND_TIME
        return AppendResult(original.first_offset, original.last_offset, append_time, True)

    # -- rolling ------------------------------------------------------------------------------------

    def _must_roll(
        self, segment: Segment, size: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> bool:
        config = self.config
        if segment.size == 0:
            return False
        return (
            segment.size + size > config.segment_bytes
            or (
                segment.waited_ms(max_timestamp, now_ms) > self._roll_after_ms
                and self._may_roll_by_time(segment, now_ms)
            )
            or (self._indexes_can_fill and segment.indexes_are_full(config.segment_index_bytes))
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        )

    def _may_roll_by_time(self, segment: Segment, now_ms: int) -> bool:
        """Kafka believes the timestamps of records, whatever they are: a file for each batch, if each is a week later
        than the one before. We believe them as long as there are few files, or where a file is worth it."""
        return (
            len(self.segments) <= SEGMENTS_BY_RECORD_TIME
            or segment.size >= WORTH_A_SEGMENT
            or now_ms - segment.created_ms > self._roll_after_ms
        )

    def roll(self, now_ms: int = 0) -> None:
        """Seal the active segment and start a new one at the log end. An empty one goes on as it is."""
        if self.active.size == 0 and self.active.base_offset == self.log_end_offset:
            return
        with self.disk():
            self.snapshots.take(self.producers, self.log_end_offset)
            self.active.seal()
            fresh = Segment.create(self.fs, self.folder, self.log_end_offset, self.open_segments, now_ms)
        self.unsynced.add(self.folder, self.active.existing_paths()[1:])
        self.segments.append(fresh)
        self.active = fresh
        self.tail.restart(self.log_end_offset)
        if self.on_flush_wanted:
            self.on_flush_wanted(self)

    # -- reading ------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, upper_offset: int, *, at_least_one: bool = True) -> Slice:
        """The bytes from the batch that holds `offset` on, below `upper_offset`, from one segment.

        At most `max_bytes`, except that the first batch is whole if `at_least_one`. The last one may be cut.
        OFFSET_OUT_OF_RANGE outside of [log start, log end]; nothing at `upper_offset` and above.
        """
        return read_slice(self, offset, max_bytes, upper_offset, at_least_one)

    def place_on_disk(self, offset: int) -> tuple[File, int] | None:
        """Where a read at `offset` starts to look; None at the tail, which was written a moment ago."""
        if offset >= self.tail.start:
            return None
        return self._look_up(lambda segments: place_in(segments, offset))

    def index_is_loaded(self, offset: int) -> bool:
        """Would a read at `offset` find its index in memory?"""
        return offset >= self.tail.start or self.segments[self.segment_number(offset)].is_loaded

    def segment_number(self, offset: int) -> int:
        """The index of the segment that `offset` belongs to."""
        return number_in(self.segments, offset)

    # -- offsets ------------------------------------------------------------------------------------

    @property
    def earliest(self) -> int:
        return self.log_start_offset

    @property
    def flushed_offset(self) -> int:
        return self.recovery_point

    @property
    def last_stable_offset(self) -> int:
        if not self.producers.has_transactions:
            return self.high_watermark
        unstable = self.producers.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    def advance_high_watermark(self, offset: int) -> None:
        """Replication says how far the in-sync replicas have come; a smaller offset is old news."""
        offset = min(offset, self.log_end_offset)
        if offset > self.high_watermark:
            self.high_watermark = offset
            if self.producers.has_transactions:
                self.producers.high_watermark_moved(offset)

    def start_epoch(self, epoch: int) -> None:
        """A leader of this epoch begins to write at the log end."""
        self.epochs.assign(epoch, self.log_end_offset)

    def forget_unwritten_epochs(self) -> None:
        """Epochs that began at the log end and left no batch: a follower says only what its batches say."""
        self.epochs.truncate_end(self.log_end_offset)

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetForLeaderEpoch answers; (-1, -1) when the epoch is unknown."""
        return self.epochs.end_offset(epoch, self.log_end_offset)

    def offset_for_timestamp(self, timestamp: int) -> FoundRecord | None:
        """(offset, timestamp, leader epoch) of the first record as late as `timestamp`."""
        return self._look_up(lambda segments: first_at_or_after(segments, timestamp, self.log_start_offset))

    def max_timestamp_offset(self) -> FoundRecord | None:
        """(offset, timestamp, leader epoch) of the first record with the largest timestamp."""
        return self._look_up(lambda segments: latest(segments, self.log_start_offset))

    def _look_up(self, search: Callable[[list[Segment]], T]) -> T:
        """Search in any thread; once more when a segment was removed or replaced meanwhile."""
        with self.disk():
            try:
                return search(list(self.segments))
            except FileNotFoundError:
                return search(list(self.segments))

    def read_committed(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True
    ) -> tuple[Slice, list[tuple[int, int]]]:
        """As `read`, below the last stable offset, with what `aborted_transactions` says of the slice."""
        return read_committed(self, offset, max_bytes, self.last_stable_offset, at_least_one)

    def aborted_transactions(self, start: int, end: int) -> list[tuple[int, int]]:
        """(producer id, first offset), by first offset: what a reader of committed data in [start, end) skips."""
        with self.disk():
            found = aborted_between(self.segments[self.segment_number(start) :], start, end)
            return sorted(found, key=itemgetter(1))

    def load_aborted(self, offset: int) -> None:
        """Read what `read_committed` will search, in any thread: a file may have a million entries."""

        def load(segments: list[Segment]) -> None:
            number = number_in(segments, offset)
            for segment in segments[
                number : number + 2
            ]:  # most transactions end in the segment they began in
                _ = segment.aborted

        self._look_up(load)

    # -- moving the start and the end -----------------------------------------------------------------

    def advance_log_start(self, offset: int) -> None:
        """DeleteRecords: nothing below `offset` is read any more. Whole segments go with the next retention."""
        if offset > self.high_watermark:
            raise out_of_range(self, offset)
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_start(offset)

    def delete_old_segments(self, now_ms: int, most: int | None = None) -> list[Segment]:
        """Apply retention; the removed segments, whose files are gone after file.delete.delay.ms.

        At most `most` of them: there may be more to remove when it was so many.
        """
        with self.disk():
            return apply_retention(self, now_ms, most)

    def truncate_to(self, offset: int) -> None:
        """Cut the log so that it ends at `offset`, or at the start of the batch that holds it."""
        with self.disk(harmless=()):
            truncate(self, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything; the log goes on, empty, at `offset`."""
        with self.disk(harmless=()):
            start_over(self, offset)

    # -- flushing and closing -----------------------------------------------------------------------

    def prepare_flush(self) -> FlushJob:
        """What to sync for everything appended until now; `complete_flush` follows when it has been run."""
        with self.disk():
            return flush_job(self)

    def complete_flush(self, job: FlushJob) -> None:
        """The job has been run: move the recovery point, unless the log was cut meanwhile."""
        if job.generation == self.generation:
            self.recovery_point = max(self.recovery_point, job.upto)

    def flush(self) -> None:
        """All three steps at once, in this thread."""
        job = self.prepare_flush()
        with self.disk():
            job.run()
        self.complete_flush(job)

    def flush_is_due(self, now_ms: int) -> bool:
        """Do flush.ms or flush.messages ask for a flush?"""
        unflushed = self.log_end_offset - self.recovery_point
        if not unflushed:
            return False
        self.last_flush_ms = min(self.last_flush_ms, now_ms)  # the clock may have been set back since
        return unflushed >= self.config.flush_messages or now_ms - self.last_flush_ms >= self.config.flush_ms

    def prepare_close(self) -> FlushJob:
        """A clean end: everything is written and, once the job has run, synced. Nothing may follow."""
        with self.disk():
            return closing_job(self)

    def close(self) -> None:
        job = self.prepare_close()
        with self.disk():
            job.run()
        self.complete_flush(job)
        self.abandon()

    def abandon(self) -> None:
        """Give back the files and save nothing more."""
        self.is_abandoned = True
        for segment in self.segments:
            segment.forget()

    @contextmanager
    def disk(self, harmless: frozenset[int] | tuple[()] = DISK_FULL) -> Iterator[None]:
        """Turn what the disk says into errors of ours."""
        try:
            yield
        except BadBatch as damage:
            raise DamagedLog(self.folder, str(damage)) from damage
        except OSError as error:
            raise self.failed(error, harmless) from error

    def failed(self, cause: OSError, harmless: frozenset[int] | tuple[()] = DISK_FULL) -> KafkaError:
        """The error to raise for a failed call; one that ends the log dir closes its gate for all."""
        if cause.errno in harmless:
            return DiskFull(self.folder, cause)
        error = LogDirError(self.folder, cause)
        self.gate.fail(error)
        return error

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, {self.log_start_offset}..{self.log_end_offset})"
