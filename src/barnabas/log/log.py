"""The log of one partition (Kafka's UnifiedLog), and appends to it.

    LocalLog      reads: by offset, by timestamp, committed
    RollingLog    rolls, pending appends, log start, tiered end
    DurableLog    files: flush, retention, truncation, move
    Log           appends

log/offsets.py defines its offsets. The data are in segments (log/segments); appends go to the last one, which is
active. A log is owned by one thread; only `FlushJob.run` and the steps of log/pending.py run in others.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import FileSystem
from barnabas.common.types import TopicPartition, Uuid
from barnabas.config.topic import LogConfig
from barnabas.log import inspection
from barnabas.log.checks import (
    check_from_client,
    check_in_transaction,
    checked_header,
    is_plain_compressed,
    too_large,
)
from barnabas.log.dirs.disk import Disk
from barnabas.log.durable_log import DurableLog
from barnabas.log.follower_run import FollowerRun
from barnabas.log.inspection import Inspected
from barnabas.log.local_log import LogState
from barnabas.log.producer import RememberedBatch
from barnabas.log.recovery.replay import NotesAborted, replay_batch, transaction_marker
from barnabas.log.segments.segment_file import OpenSegments
from barnabas.records import MIN_RECORD, EndTransactionMarker
from barnabas.records.batch import (
    CONTROL_BIT,
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    Walked,
    iterate_headers,
    read_header,
    stamp_log_append_time,
    unpack_header,
    write_stamp,
)

NO_APPEND_TIME: Final = -1


class Origin(Enum):
    """Origin of a batch appended by a leader; coordinators may write batches that clients may not."""

    CLIENT = "client"
    TRANSACTION = "transaction"  # a client, for a partition that is part of its transaction
    COORDINATOR = "coordinator"


CLIENT: Final = Origin.CLIENT  # for the hot path, as NO_ERROR


class AppendResult(NamedTuple):
    first_offset: int
    last_offset: int
    log_append_time: int  # -1 unless the topic has LogAppendTime
    duplicate: bool


# Tuple constructors without the overhead of their Python frames.
new_result = new_header = tuple.__new__


class Log(DurableLog):
    """One log. Errors are KafkaErrors, and leave it unchanged. Only its own methods assign to its attributes."""

    __slots__ = (
        "_after_max_ms", "_index_interval", "_inspects", "_largest_batch", "_largest_data", "_stamps_time",
    )  # fmt: skip

    disk: Disk

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        parts: LogState,
        *,
        disk: Disk,
        open_segments: OpenSegments,
        roll_jitter: float = 0.0,
    ) -> None:
        super().__init__(
            fs, folder, topic_partition, topic_id, config, parts, disk, open_segments, roll_jitter
        )
        self.update_config(config)

    def update_config(self, config: LogConfig) -> None:
        """Apply a new config from the next append on."""
        super().update_config(config)
        self._inspects = inspection.is_needed(config)
        inspection.prepare(config)
        self._stamps_time = config.message_timestamp_type == inspection.LOG_APPEND_TIME
        self._largest_data = inspection.largest_data(config)
        self._after_max_ms = config.message_timestamp_after_max_ms
        self._largest_batch = min(config.max_message_bytes, config.segment_bytes)
        self._index_interval = config.index_interval_bytes

    # -- appends ------------------------------------------------------------------------------------

    def append_as_leader(
        self,
        batch: memoryview,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = CLIENT,
        inspected: Inspected | None = None,
    ) -> AppendResult:
        """Assign offsets to the batch and append it. Its bytes are modified in place and not kept.

        Raise InspectionRequiredError if it has to be validated in a thread first (`log/inspection.py`); the result of
        that is passed as `inspected`.
        """
        if now_ms >= self.disk.check_at_ms:
            self.disk.check(now_ms)
        size = len(batch)
        if size < HEADER_SIZE or origin is not CLIENT or self._inspects:
            return self._append_unusual(batch, leader_epoch, now_ms, origin, inspected)
        # Fast path of nearly every batch: the header is unpacked once and checked in one expression. All other batches
        # take the slow path, which repeats the checks step by step, with an error for each.
        header = unpack_header(batch)
        (
            base_offset, length, _, magic, crc, attributes, last_offset_delta, base_timestamp, max_timestamp,
            producer_id, producer_epoch, base_sequence, count,
        ) = header  # fmt: skip
        if (
            length + LOG_OVERHEAD != size
            or magic != MAGIC
            or size > self._largest_batch
            or base_offset
            or count != last_offset_delta + 1
            or (
                count * MIN_RECORD > size - HEADER_SIZE
                if attributes == 0
                else not is_plain_compressed(batch, attributes, count, self._largest_data)
            )
            or count <= 0
            or not 0 <= base_timestamp <= max_timestamp <= now_ms + self._after_max_ms
            or (producer_id >= 0 and (base_sequence < 0 or producer_epoch < 0))
            or crc32c(batch[CRC_START:]) != crc
        ):
            return self._append_unusual(batch, leader_epoch, now_ms, origin, inspected)
        if producer_id >= 0:
            return self._append_of_producer(batch, new_header(BatchHeader, header), leader_epoch, now_ms)
        return self._append_next(batch, last_offset_delta, max_timestamp, producer_id, leader_epoch, now_ms)

    def _append_unusual(
        self,
        batch: memoryview,
        leader_epoch: int,
        now_ms: int,
        origin: Origin,
        inspected: Inspected | None,
    ) -> AppendResult:
        """Slow path: batches that are invalid, need inspection, or have an origin other than a client."""
        header = checked_header(batch, self._largest_data)
        if origin is CLIENT:
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
        return self._append_next(
            batch, header.last_offset_delta, header.max_timestamp, header.producer_id, leader_epoch, now_ms
        )

    def _inspect(
        self,
        batch: memoryview,
        header: BatchHeader,
        now_ms: int,
        origin: Origin,
        inspected: Inspected | None,
    ) -> tuple[memoryview, BatchHeader]:
        if inspected is None or inspected.config is not self.config:
            trusted = origin is Origin.COORDINATOR  # the broker built these records
            inspected = inspection.inspect(
                batch, header, self.config, now_ms, trusted=trusted, at_once=not trusted
            )
        batch, header, _ = inspected
        if len(batch) > self._largest_batch:  # it may have been recompressed
            raise too_large(len(batch), self.config)
        if self._stamps_time:
            stamp_log_append_time(batch, 0, header.size, now_ms)
            header = read_header(batch)
        return batch, header

    def _append_of_producer(
        self, batch: memoryview, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> AppendResult:
        _, _, _, _, _, attributes, last_offset_delta, _, max_timestamp, producer_id, _, _, _ = header
        if attributes & CONTROL_BIT:
            return self._append_marker(batch, header, leader_epoch, now_ms)
        producers = self.producers
        original = producers.check(header)
        if original is not None:
            return self._duplicate(original)
        result = self._append_next(batch, last_offset_delta, max_timestamp, producer_id, leader_epoch, now_ms)
        producers.remember(header, result[0], now_ms)
        return result

    def _append_marker(
        self, batch: memoryview, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> AppendResult:
        marker = transaction_marker(batch, header)
        if marker is not None:
            self.producers.check_marker(header, marker.coordinator_epoch)
        result = self._append_next(
            batch, header.last_offset_delta, header.max_timestamp, header.producer_id, leader_epoch, now_ms
        )
        replay_batch(self.producers, self._aborted_index(), header, result.first_offset, marker, now_ms)
        return result

    def _append_next(
        self,
        batch: memoryview,
        last_offset_delta: int,
        max_timestamp: int,
        producer_id: int,
        leader_epoch: int,
        now_ms: int,
    ) -> AppendResult:
        first_offset = self.offsets.end
        last_offset = first_offset + last_offset_delta
        write_stamp(batch, 0, first_offset, len(batch) - LOG_OVERHEAD, leader_epoch)
        writes = self.disk.writes
        if writes is None:
            self.write(batch, last_offset, max_timestamp, now_ms)
        else:
            writes.write(self, batch, last_offset, max_timestamp, producer_id, now_ms)
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, first_offset)
        append_time = now_ms if self._stamps_time else NO_APPEND_TIME
        return new_result(AppendResult, (first_offset, last_offset, append_time, False))

    def write(self, batch: memoryview, last_offset: int, max_timestamp: int, now_ms: int) -> None:
        """Write a batch with assigned offsets synchronously."""
        size = len(batch)
        segments, rolling = self.segments, self._rolling
        segment = segments.active
        position = segment.size
        if (
            segment is not rolling.segment
            or segment.first_timestamp is not rolling.first_timestamp
            or position + size > rolling.bytes
            or max_timestamp > rolling.timestamp
            or last_offset > rolling.offset
        ) and rolling.is_due(segment, position, size, last_offset, max_timestamp, now_ms):
            self.roll(now_ms)
            segment, position = segments.active, 0
        try:
            segment.append(batch, size, last_offset, max_timestamp, self._index_interval)
        except OSError as error:
            raise self.failed(error) from error
        segments.tail.add(last_offset, position)
        offsets = self.offsets
        offsets.end = offsets.written = last_offset + 1
        if last_offset - offsets.recovery_point >= self._flush_messages:
            self._on_flush_wanted()

    def append_as_follower(
        self, batches: memoryview, now_ms: int = 0, walked: Walked | None = None
    ) -> AppendResult:
        """Append batches from the leader unchanged, with its offsets, epochs and timestamps.

        `walked` selects batches by position, if the caller has parsed the headers. If one is refused, those before it
        stay appended.
        """
        self.disk.check(now_ms)
        first_offset = self.offsets.end
        run = FollowerRun(self, batches, now_ms)
        try:
            for position, header in iterate_headers(batches) if walked is None else walked:
                run.add(position, header)
        finally:
            run.write()
        if self.offsets.end == first_offset:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"no complete batch in the {len(batches)} bytes from the leader",
            )
        return AppendResult(first_offset, self.offsets.end - 1, NO_APPEND_TIME, False)

    def has_room_for(self, position: int, size: int, last_offset: int, max_timestamp: int) -> bool:
        """True if the cached limits of the active segment allow this batch at this position."""
        segment, rolling = self.segments.active, self._rolling
        return (
            segment is rolling.segment
            and segment.first_timestamp is rolling.first_timestamp
            and position + size <= rolling.bytes
            and max_timestamp <= rolling.timestamp
            and last_offset <= rolling.offset
        )

    def write_run(self, batches: memoryview, headers: Sequence[BatchHeader]) -> None:
        """Like `write`, for consecutive batches that fit into the active segment, in one write."""
        segments = self.segments
        position = segments.active.size
        try:
            segments.active.append_run(batches, headers, self._index_interval)
        except OSError as error:
            raise self.failed(error) from error
        for header in headers:
            segments.tail.add(header.last_offset, position)
            position += header.size
        offsets, last_offset = self.offsets, headers[-1].last_offset
        offsets.append(last_offset + 1)
        if last_offset - offsets.recovery_point >= self._flush_messages:
            self._on_flush_wanted()

    def note_followed(self, header: BatchHeader, marker: EndTransactionMarker | None, now_ms: int) -> None:
        """Update epochs, producers and transactions after a batch from the leader was appended."""
        if header.leader_epoch != self.epochs.latest:
            self.epochs.assign(header.leader_epoch, header.base_offset)
        if header.producer_id >= 0:
            replay_batch(self.producers, self._aborted_index(), header, header.base_offset, marker, now_ms)

    def _aborted_index(self) -> NotesAborted:
        """Pending append or active segment that records a transaction aborted by the last append."""
        newest = self._pending.newest if self._pending is not None else None
        return newest if newest is not None else self.segments.active

    def _duplicate(self, original: RememberedBatch) -> AppendResult:
        append_time = original.timestamp if self._stamps_time else NO_APPEND_TIME
        return AppendResult(original.first_offset, original.last_offset, append_time, True)
