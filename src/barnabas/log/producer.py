"""State of one producer in one partition: its last batches, its epoch, and its open transaction."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from barnabas.log.segments.aborted_index import CompletedTransaction
from barnabas.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, BatchHeader

REMEMBERED_BATCHES = 5  # max.in.flight.requests.per.connection of an idempotent producer is at most this
NO_COORDINATOR_EPOCH = -1
NO_MARKER = -1

SEQUENCE_MASK = 0x7FFFFFFF


class RememberedBatch(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MASK


class ProducerState:
    """The state of one producer id in one partition."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "ended_epoch",
        "epoch",
        "last_append_ms",
        "marker_offset",
        "marker_timestamp",
        "move_at_ms",
        "next_sequence",
        "producer_id",
        "since",
        "transaction_start",
    )

    def __init__(self, producer_id: int, epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: deque[RememberedBatch] = deque(maxlen=REMEMBERED_BATCHES)
        self.next_sequence = 0
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_append_ms = 0
        """By the broker's clock; approximate if read from a snapshot."""
        self.move_at_ms = 0
        """From this time on, the next batch moves the producer to the end of the order."""
        self.transaction_start: int | None = None
        self.marker_offset = NO_MARKER
        """Offset of the last marker since startup; a pending transaction verification detects the end by it."""
        self.ended_epoch = NO_PRODUCER_EPOCH
        """Producer epoch of the transaction that the last marker since startup ended."""
        self.marker_timestamp = NO_TIMESTAMP
        self.since: int | None = None
        """Offset of the producer's first batch or marker here; None if it was restored from a snapshot."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def last_timestamp(self) -> int:
        """Timestamp of the last batch, set by the client, or of the last marker."""
        if self.batches and self.last_offset > self.marker_offset:
            return self.batches[-1].timestamp
        return self.marker_timestamp

    def duplicate_of(self, header: BatchHeader) -> RememberedBatch | None:
        for batch in self.batches:
            if (
                batch.offset_delta == header.last_offset_delta
                and batch.first_sequence == header.base_sequence
            ):
                return batch
        return None

    def copy(self) -> ProducerState:
        other = ProducerState(self.producer_id)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        other.batches = self.batches.copy()
        return other

    def remember(self, epoch: int, batch: RememberedBatch, now_ms: int) -> None:
        if epoch != self.epoch:
            self.bump_epoch(epoch)
        self.batches.append(batch)
        self.next_sequence = (batch[0] + 1) & SEQUENCE_MASK
        self.last_append_ms = now_ms

    def can_roll_back(self, offset: int) -> bool:
        """True if the state at `offset` can be restored from the remembered batches."""
        if self.since is not None and self.since >= offset:
            return True
        return self.marker_offset < offset and bool(self.batches) and self.batches[0].last_offset < offset

    def roll_back(self, offset: int) -> None:
        """Restore the state at `offset` after a truncation. Older batches are not needed: they are not in flight."""
        while self.batches[-1].last_offset >= offset:
            self.batches.pop()
        self.next_sequence = (self.batches[-1].last_sequence + 1) & SEQUENCE_MASK
        if self.transaction_start is not None and self.transaction_start >= offset:
            self.transaction_start = None

    def bump_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.next_sequence = 0


class SavedProducer(NamedTuple):
    """State of a producer and of the decided transactions before a pending batch, which may fail."""

    producer_id: int
    producer: ProducerState | None
    decided: tuple[CompletedTransaction, ...]
