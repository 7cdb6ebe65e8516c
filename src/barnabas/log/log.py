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

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from operator import attrgetter
from typing import NamedTuple

from barnabas.config.topic import LogConfig
from barnabas.errors import ErrorCode, KafkaError
from barnabas.files import File, FileSystem
from barnabas.log import inspection, names
from barnabas.log.checkpoints import encode_epochs
from barnabas.log.checks import check_create_time, check_from_client, check_in_transaction, checked_header
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.failures import DISK_FULL, DamagedLog, DiskFull, LogDirError
from barnabas.log.flushing import FlushJob
from barnabas.log.gate import Gate
from barnabas.log.open_segments import OpenSegments
from barnabas.log.producers import ProducerStates, RememberedBatch
from barnabas.log.replay import replay_batch, transaction_marker
from barnabas.log.retention import count_deletable
from barnabas.log.scan import BadBatch
from barnabas.log.searching import FoundRecord, aborted_between, first_at_or_after, latest
from barnabas.log.segment import MAX_RELATIVE_OFFSET, Segment
from barnabas.log.slices import EMPTY, FileSlice, Slice
from barnabas.log.snapshots import SnapshotFiles
from barnabas.log.tail import Tail
from barnabas.log.truncation import cut_segments, find_cut, rebuild_producers, remove_segment_now
from barnabas.records.batch import (
    BatchHeader,
    crc_is_right,
    iterate_headers,
    stamp,
)
from barnabas.types import TopicPartition, Uuid

__all__ = ["EMPTY", "AppendResult", "FileSlice", "FlushJob", "Log", "LogParts", "Origin"]

NO_APPEND_TIME = -1

_base_offset = attrgetter("base_offset")


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
    unsynced_folders: list[str]  # whose names are not yet known to survive a crash
    unsynced_files: list[str]


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
        self.generation = 0
        """Grows whenever bytes below the log end are cut or replaced: plans made before are void."""
        self.last_flush_ms = 0
        self.on_flush_wanted: Callable[[Log], None] | None = None
        """Told when a segment was sealed or flush.messages is reached: a good moment for a flush."""
        self.before_truncation: Callable[[Log], None] | None = None
        """Told before bytes are cut, with the new recovery point in place: it must be on disk first."""
        self.garbage: list[tuple[int, str]] = []
        """(when, path) of files to be removed later."""
        self._gate = gate
        self._open_segments = open_segments
        self._roll_jitter = roll_jitter
        self._tail = Tail(parts.log_end)
        self._unsynced_folders = parts.unsynced_folders
        self._unsynced_files = parts.unsynced_files
        self.producers.high_watermark_moved(self.high_watermark)
        self.update_config(config)

    def update_config(self, config: LogConfig) -> None:
        """New settings are in force from the next append on."""
        self.config = config
        self._inspects = inspection.is_needed(config)
        self._stamps_time = config.message_timestamp_type == inspection.LOG_APPEND_TIME
        self._largest_batch = min(config.max_message_bytes, config.segment_bytes)
        # With Kafka's defaults a segment is full long before its indexes are: no need to look at every append.
        most_entries = config.segment_bytes // max(config.index_interval_bytes, 1) + 1
        self._indexes_can_fill = most_entries >= config.segment_index_bytes // 12 - 1
        self._roll_after_ms = config.segment_ms - int(
            self._roll_jitter * min(config.segment_jitter_ms, config.segment_ms)
        )

    # -- appending ----------------------------------------------------------------------------------

    def append_as_leader(
        self, batch: memoryview, leader_epoch: int, now_ms: int, *, origin: Origin = Origin.CLIENT
    ) -> AppendResult:
        """Give the batch its offsets and append it. Its bytes are stamped in place and not kept."""
        gate = self._gate
        if gate.error is not None or now_ms >= gate.check_at_ms:
            gate.check(now_ms)
        header = checked_header(batch)
        if origin is Origin.CLIENT:
            check_from_client(header)
        elif origin is Origin.TRANSACTION:
            check_in_transaction(header)
        if len(batch) > self._largest_batch:
            raise self._too_large(len(batch))
        if self._inspects:
            batch, header = inspection.inspect(batch, header, self.config, now_ms)
        else:
            check_create_time(header, now_ms + self.config.message_timestamp_after_max_ms)
        if header.producer_id >= 0:
            return self._append_of_producer(batch, header, leader_epoch, now_ms)
        return self._append_next(batch, header, leader_epoch, now_ms)

    def _append_of_producer(
        self, batch: memoryview, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> AppendResult:
        marker = None
        if header.is_control:
            marker = transaction_marker(batch, header)
            if marker is not None:
                self.producers.check_marker(header, marker.coordinator_epoch)
        else:
            original = self.producers.check(header)
            if original is not None:
                return self._duplicate(original)
        result = self._append_next(batch, header, leader_epoch, now_ms)
        replay_batch(self.producers, self.active, header, result.first_offset, marker)
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
            raise self._failed(error) from error
        self._tail.add(last_offset, position)
        self.log_end_offset = last_offset + 1
        self.size_bytes += size
        if last_offset - self.recovery_point >= self.config.flush_messages and self.on_flush_wanted:
            self.on_flush_wanted(self)

    def append_as_follower(self, batches: memoryview, now_ms: int = 0) -> AppendResult:
        """Append batches as the leader sent them: offsets, epochs and timestamps are its own."""
        self._gate.check(now_ms)
        first_offset = self.log_end_offset
        for position, header in iterate_headers(batches):
            batch = batches[position : position + header.size]
            self._check_follows(batch, header)
            marker = (
                transaction_marker(batch, header) if header.is_control and header.producer_id >= 0 else None
            )
            self._write(batch, header.last_offset, header.max_timestamp, now_ms)
            self.epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                replay_batch(self.producers, self.active, header, header.base_offset, marker)
        return AppendResult(first_offset, self.log_end_offset - 1, NO_APPEND_TIME, False)

    def _check_follows(self, batch: memoryview, header: BatchHeader) -> None:
        if header.base_offset < self.log_end_offset:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"the leader sent offset {header.base_offset} for {self.topic_partition}, "
                f"which already ends at {self.log_end_offset}",
            )
        if not crc_is_right(batch, 0, header.size):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} was damaged on its way"
            )

    def _duplicate(self, original: RememberedBatch) -> AppendResult:
        append_time = original.timestamp if self._stamps_time else NO_APPEND_TIME
        return AppendResult(original.first_offset, original.last_offset, append_time, True)

    def _too_large(self, size: int) -> KafkaError:
        if size > self.config.max_message_bytes:
            return KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a batch of {size} bytes; max.message.bytes allows {self.config.max_message_bytes}",
            )
        return KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {size} bytes does not fit into a segment of {self.config.segment_bytes} bytes",
        )

    def place_on_disk(self, offset: int) -> tuple[File, int] | None:
        """Where a read at `offset` starts to look; None at the tail, which was written a moment ago."""
        if offset >= self._tail.start:
            return None
        segment = self.segments[self.segment_number(offset)]
        with self._disk():
            return segment.file, segment.offset_index.lookup(max(offset - segment.base_offset, 0))

    def index_is_loaded(self, offset: int) -> bool:
        """Would a read at `offset` find its index in memory?"""
        return offset >= self._tail.start or self.segments[self.segment_number(offset)].is_loaded

    # -- rolling ------------------------------------------------------------------------------------

    def _must_roll(
        self, segment: Segment, size: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> bool:
        config = self.config
        if segment.size == 0:
            return False
        return (
            segment.size + size > config.segment_bytes
            or segment.waited_ms(max_timestamp, now_ms) > self._roll_after_ms
            or (self._indexes_can_fill and segment.indexes_are_full(config.segment_index_bytes))
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        )

    def roll(self, now_ms: int = 0) -> None:
        """Seal the active segment and start a new one at the log end. An empty one goes on as it is."""
        if self.active.size == 0 and self.active.base_offset == self.log_end_offset:
            return
        try:
            self.snapshots.take(self.producers, self.log_end_offset)
            self.active.seal()
            fresh = Segment.create(self.fs, self.folder, self.log_end_offset, self._open_segments, now_ms)
        except OSError as error:
            raise self._failed(error) from error
        self._unsynced_files += self.active.existing_paths()[1:]
        self._unsynced_folders = [self.folder]
        self.segments.append(fresh)
        self.active = fresh
        self._tail.restart(self.log_end_offset)
        if self.on_flush_wanted:
            self.on_flush_wanted(self)

    # -- reading ------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, upper_offset: int, *, at_least_one: bool = True) -> Slice:
        """The bytes from the batch that holds `offset` on, below `upper_offset`, from one segment.

        At most `max_bytes`, except that the first batch is whole if `at_least_one`. The last one may be cut.
        """
        log_end = self.log_end_offset
        if not self.log_start_offset <= offset <= log_end:
            raise self._out_of_range(offset)
        if offset >= upper_offset or offset == log_end:
            return EMPTY
        if offset >= self._tail.start:
            segment = self.active
            position, size = self._tail.find(offset, segment.size)
        else:
            found = self._locate(offset)
            if found is None:
                return EMPTY
            segment, position, size = found
        length = self._end_position(segment, upper_offset) - position
        if length > max_bytes:
            length = max(max_bytes, size) if at_least_one else (max_bytes if size <= max_bytes else 0)
        return FileSlice(segment.file, position, length) if length > 0 else EMPTY

    def _locate(self, offset: int) -> tuple[Segment, int, int] | None:
        """Segment, position and size of the first batch that ends at `offset` or later."""
        for segment in self.segments[self.segment_number(offset) :]:
            found = self._locate_in(segment, offset)
            if found is not None:
                position, header = found
                return segment, position, header.size
        return None

    def _locate_in(self, segment: Segment, offset: int) -> tuple[int, BatchHeader] | None:
        try:
            return segment.locate(offset)
        except BadBatch as damage:
            raise DamagedLog(self.folder, f"{damage} of {segment.path(names.LOG)}") from damage
        except OSError as error:
            raise self._failed(error) from error

    def segment_number(self, offset: int) -> int:
        """The index of the segment that `offset` belongs to."""
        return max(bisect_right(self.segments, offset, key=_base_offset) - 1, 0)

    def _end_position(self, segment: Segment, upper_offset: int) -> int:
        """Where the first batch starts that must not be read any more."""
        if upper_offset >= self.log_end_offset:
            return segment.size
        if segment is self.active and upper_offset >= self._tail.start:
            return self._tail.find(upper_offset, segment.size)[0]
        found = self._locate_in(segment, upper_offset)
        return found[0] if found is not None else segment.size

    def _out_of_range(self, offset: int) -> KafkaError:
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{self.topic_partition} holds the offsets {self.log_start_offset} to {self.log_end_offset}, not {offset}",
        )

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

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetForLeaderEpoch answers; (-1, -1) when the epoch is unknown."""
        return self.epochs.end_offset(epoch, self.log_end_offset)

    def offset_for_timestamp(self, timestamp: int) -> FoundRecord | None:
        """(offset, timestamp, leader epoch) of the first record as late as `timestamp`."""
        with self._disk():
            return first_at_or_after(self.segments, timestamp, self.log_start_offset)

    def max_timestamp_offset(self) -> FoundRecord | None:
        """(offset, timestamp, leader epoch) of the first record with the largest timestamp."""
        with self._disk():
            return latest(self.segments, self.log_start_offset)

    def aborted_transactions(self, start: int, end: int) -> list[tuple[int, int]]:
        """(producer id, first offset), by first offset: what a reader of committed data in [start, end) skips."""
        with self._disk():
            return aborted_between(self.segments[self.segment_number(start) :], start, end)

    # -- moving the start and the end -----------------------------------------------------------------

    def advance_log_start(self, offset: int) -> None:
        """DeleteRecords: nothing below `offset` is read any more. Whole segments go with the next retention."""
        if offset > self.high_watermark:
            raise self._out_of_range(offset)
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_start(offset)

    def delete_old_segments(self, now_ms: int) -> list[Segment]:
        """Apply retention; the removed segments, whose files are gone after file.delete.delay.ms."""
        count = count_deletable(self, now_ms)
        if count == len(self.segments):
            self.roll(now_ms)
        removed = self.segments[:count]
        with self._disk():
            for segment in removed:
                self._retire(segment, now_ms)
        if removed:
            self.advance_log_start(min(self.segments[0].base_offset, self.high_watermark))
            self.snapshots.keep_only(
                offset for offset in self.snapshots.offsets if offset >= self.segments[0].base_offset
            )
        return removed

    def _retire(self, segment: Segment, now_ms: int) -> None:
        segment.forget()
        for path in segment.existing_paths():
            self.fs.rename(path, path + names.DELETED)
            self.garbage.append((now_ms + self.config.file_delete_delay_ms, path + names.DELETED))
        self.segments.remove(segment)
        self.size_bytes -= segment.size
        # If a crash brought it back once the recovery point is above it, it would be believed.
        self._unsynced_folders = [self.folder]

    def truncate_to(self, offset: int) -> None:
        """Cut the log so that it ends at `offset`, or at the start of the batch that holds it."""
        if offset >= self.log_end_offset:
            return
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        with self._disk(harmless=()):
            cut = find_cut(self.segments[: self.segment_number(offset) + 1], offset)
            self._announce_cut(cut.log_end)
            cut_segments(self, cut)
            self.log_end_offset = cut.log_end
            self._after_cut()
            self.snapshots.remove_from(self.log_end_offset)
            rebuild_producers(self.producers, self.snapshots, self.segments, self.log_end_offset)
            self.producers.high_watermark_moved(self.high_watermark)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything; the log goes on, empty, at `offset`."""
        self._announce_cut(self.segments[0].base_offset)
        with self._disk(harmless=()):
            while self.segments:
                remove_segment_now(self, self.segments.pop())
            fresh = Segment.create(self.fs, self.folder, offset, self._open_segments, self.active.created_ms)
            self.fs.sync_folder(self.folder)
            self.segments.append(fresh)
            self.log_start_offset = self.log_end_offset = offset
            self.epochs.clear()
            self._after_cut()
            self.snapshots.keep_only(())
            self.producers.clear()

    def _announce_cut(self, log_end: int) -> None:
        self.generation += 1
        self.recovery_point = min(self.recovery_point, log_end)
        self.log_start_offset = min(self.log_start_offset, log_end)
        if self.before_truncation:
            self.before_truncation(self)

    def _after_cut(self) -> None:
        self.active = self.segments[-1]
        self.size_bytes = sum(segment.size for segment in self.segments)
        self.high_watermark = max(min(self.high_watermark, self.log_end_offset), self.log_start_offset)
        self.recovery_point = min(self.recovery_point, self.log_end_offset)
        self.epochs.truncate_end(self.log_end_offset)
        self._tail.restart(self.log_end_offset)
        self._unsynced_folders = [self.folder]

    # -- flushing and closing -----------------------------------------------------------------------

    def prepare_flush(self) -> FlushJob:
        """What to sync for everything appended until now; `complete_flush` follows when it has been run."""
        unflushed = self.segments[self.segment_number(self.recovery_point) :]
        if self.recovery_point == self.log_end_offset and not self._unsynced_folders:
            unflushed = []
        try:
            paths = [*self._unsynced_files, *self.snapshots.take_unsynced()]
            if self.epochs.dirty:
                paths.append(self.save_epochs())
            files = [segment.file for segment in unflushed]
        except OSError as error:
            raise self._failed(error) from error
        folders = self._unsynced_folders or ([self.folder] if paths else [])
        self._unsynced_files, self._unsynced_folders = [], []
        return FlushJob(self.fs, files, paths, folders, self.log_end_offset, self.generation)

    def complete_flush(self, job: FlushJob, now_ms: int = 0) -> None:
        """The job has been run: move the recovery point, unless the log was cut meanwhile."""
        self.last_flush_ms = now_ms
        if job.generation == self.generation:
            self.recovery_point = max(self.recovery_point, job.upto)

    def flush(self) -> None:
        """All three steps at once, in this thread."""
        job = self.prepare_flush()
        try:
            job.run()
        except OSError as error:
            raise self._failed(error) from error
        self.complete_flush(job)

    def save_epochs(self) -> str:
        path = f"{self.folder}/{names.LEADER_EPOCHS}"
        self.fs.write_atomic(path, encode_epochs(self.epochs.entries), sync=False)
        self.epochs.dirty = False
        return path

    def flush_is_due(self, now_ms: int) -> bool:
        """Do flush.ms or flush.messages ask for a flush?"""
        unflushed = self.log_end_offset - self.recovery_point
        if not unflushed:
            return False
        return unflushed >= self.config.flush_messages or now_ms - self.last_flush_ms >= self.config.flush_ms

    def prepare_close(self) -> FlushJob:
        """A clean end: everything is written and, once the job has run, synced. Nothing may follow."""
        with self._disk():
            if self.log_end_offset not in self.snapshots.offsets and (self.size_bytes or len(self.producers)):
                self.snapshots.take(self.producers, self.log_end_offset)
            for segment in self.segments:
                segment.seal_if_unsaved()
            self._unsynced_files += self.active.existing_paths()[1:]
        return self.prepare_flush()

    def close(self) -> None:
        job = self.prepare_close()
        with self._disk():
            job.run()
        self.complete_flush(job)
        self.abandon()

    def abandon(self) -> None:
        """Give back the files and save nothing more."""
        for segment in self.segments:
            segment.forget()

    @contextmanager
    def _disk(self, harmless: frozenset[int] | tuple[()] = DISK_FULL) -> Iterator[None]:
        """Turn what the disk says into errors of ours."""
        try:
            yield
        except BadBatch as damage:
            raise DamagedLog(self.folder, str(damage)) from damage
        except OSError as error:
            raise self._failed(error, harmless) from error

    def _failed(self, cause: OSError, harmless: frozenset[int] | tuple[()] = DISK_FULL) -> KafkaError:
        """The error to raise for a failed call; one that ends the log dir closes its gate for all."""
        if cause.errno in harmless:
            return DiskFull(self.folder, cause)
        error = LogDirError(self.folder, cause)
        self._gate.fail(error)
        return error

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, {self.log_start_offset}..{self.log_end_offset})"
