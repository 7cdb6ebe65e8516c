"""What a partition remembers of its producers: sequences for idempotence, and open transactions.

Theory of operation. For each producer id the last five batches are kept: a producer has at most five requests
in flight, so a batch that is sent again is one of them, and is answered with the offsets of its original.
Anything else must continue the sequence.

    known epoch    batch epoch   sequence                       answer
    none           any           any                            accepted: the state may have expired
    e              < e           any                            INVALID_PRODUCER_EPOCH (fenced)
    e              > e           0                              accepted, the memory of e is dropped
    e              > e           other                          OUT_OF_ORDER_SEQUENCE_NUMBER
    e              e             equals a remembered batch      duplicate: the offsets of that batch
    e              e             last + 1                       accepted
    e              e             other                          OUT_OF_ORDER_SEQUENCE_NUMBER
    e              e or more     none                           accepted: a coordinator writes for the producer

A transaction is open from its first batch until its marker. Records from the first open one on are unstable:
`first_unstable_offset` is where a reader of committed data must stop. A transaction that is over stays in the
way until its marker is below the high watermark.

Checking and remembering are two calls, so that a write that fails in between leaves no trace.

Producers are forgotten by the broker's own clock: by when a batch of theirs was last appended here, not by the
timestamps in it, which are the client's (a backfill of old records is not silent). They are kept in the order of their
last batch, to within a second, so that those who have been silent longest are found without a search.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.transactions import CompletedTransaction
from barnabas.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
)

REMEMBERED_BATCHES = 5  # max.in.flight.requests.per.connection of an idempotent producer is at most this
MOST_PRODUCERS = 100_000  # per partition; what a flood of new producer ids may cost at most, about 50 MB
ORDERED_TO_MS = 1000
"""A producer that sends all the time is moved behind the others once in this time, not with each batch."""
GRACE_MS = 3_600_000
"""So long after a start nobody is forgotten: times in snapshots of Kafka, and older ones of ours, are the clients'."""
EVICTED_SHARE = 100  # one of so many, when there are too many
NO_COORDINATOR_EPOCH = -1
NO_MARKER = -1

_SEQUENCE_MASK = 0x7FFFFFFF


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
        return (self.last_sequence - self.offset_delta) & _SEQUENCE_MASK


class Producer:
    """The state of one producer id in one partition."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_append_ms",
        "marker_offset",
        "marker_timestamp",
        "move_at_ms",
        "next_sequence",
        "producer_id",
        "transaction_start",
    )

    def __init__(self, producer_id: int, epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: deque[RememberedBatch] = deque(maxlen=REMEMBERED_BATCHES)
        self.next_sequence = 0
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_append_ms = 0
        """By our clock; from a file, as near as is known."""
        self.move_at_ms = 0
        """From then on the next batch moves it behind all others."""
        self.transaction_start: int | None = None
        self.marker_offset = NO_MARKER
        """Of the last marker since the start: who waited to join a transaction sees that it is over."""
        self.marker_timestamp = NO_TIMESTAMP

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def last_timestamp(self) -> int:
        """Of its last batch or marker; what a client says it is, if it was a batch."""
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

    def remember(self, epoch: int, batch: RememberedBatch, now_ms: int) -> None:
        if epoch != self.epoch:
            self.bump_epoch(epoch)
        self.batches.append(batch)
        self.next_sequence = (batch[0] + 1) & _SEQUENCE_MASK
        self.last_append_ms = now_ms

    def bump_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.next_sequence = 0


def _nobody_counts() -> None:
    """For a log that belongs to no broker."""


class ProducerStates:
    """All producers of one partition."""

    def __init__(self, limit: int = MOST_PRODUCERS) -> None:
        self._limit = limit
        self._producers: dict[int, Producer] = {}
        self._open: dict[int, int] = {}  # producer id -> first offset; in order, because offsets grow
        # Over, but not yet below the high watermark. Both offsets ascend from one to the next: a transaction that began
        # later and ended earlier than another one never matters, and is left out.
        self._decided: deque[CompletedTransaction] | None = None
        self.known_since = 0
        """Of each batch and marker from this offset on was taken note; of those below a snapshot tells the result."""
        self.loaded_ms: int | None = None
        """When this was read from files."""
        self.on_new: Callable[[], None] = _nobody_counts
        """Called before a new producer is remembered: all partitions share a bound (`producer_budget`)."""

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    # -- before an append ---------------------------------------------------------------------------

    def check(self, header: BatchHeader) -> RememberedBatch | None:
        """Is this the producer's next batch? Its original when it is a duplicate; KafkaError when it is neither."""
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None
        if (
            header.base_sequence == producer.next_sequence
            and header.producer_epoch == producer.epoch
            and producer.transaction_start is None
        ):
            return None  # what nearly every batch is
        return self._check_unusual(producer, header)

    def _check_unusual(self, producer: Producer, header: BatchHeader) -> RememberedBatch | None:
        self.check_epoch(producer, header.producer_epoch)
        if header.base_sequence == NO_SEQUENCE:
            return None  # offsets that a coordinator writes for the producer are not numbered
        if header.producer_epoch == producer.epoch:
            duplicate = producer.duplicate_of(header)
            if duplicate is not None:
                return duplicate
            expected = producer.next_sequence
        else:
            expected = 0
        if header.base_sequence != expected and producer.epoch != NO_PRODUCER_EPOCH:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} (epoch {header.producer_epoch}) sent sequence "
                f"{header.base_sequence}, expected {expected}",
            )
        if producer.transaction_start is not None and not header.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has an open transaction and sent a batch outside of it",
            )
        return None

    def check_epoch(self, producer: Producer, epoch: int) -> None:
        if epoch < producer.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer.producer_id} has epoch {epoch}, but epoch {producer.epoch} is known: "
                "a newer instance has taken over",
            )

    def check_marker(self, header: BatchHeader, coordinator_epoch: int) -> None:
        """May this coordinator end that producer's transaction?"""
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return
        self.check_epoch(producer, header.producer_epoch)
        if coordinator_epoch < producer.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a transaction marker of coordinator epoch {coordinator_epoch}, "
                f"but epoch {producer.coordinator_epoch} has already written one",
            )

    # -- after an append ----------------------------------------------------------------------------

    def remember(self, header: BatchHeader, first_offset: int, now_ms: int) -> None:
        """Take note of a batch that was appended at `now_ms`."""
        producer = self._producers.get(header.producer_id) or self._new(header.producer_id)
        delta = header.last_offset_delta
        sequence = header.base_sequence
        if sequence != NO_SEQUENCE:
            sequence = (sequence + delta) & _SEQUENCE_MASK
        producer.remember(
            header.producer_epoch,
            RememberedBatch(sequence, first_offset + delta, delta, header.max_timestamp),
            now_ms,
        )
        if now_ms >= producer.move_at_ms:
            self._move_last(producer, now_ms)
        if header.attributes & TRANSACTIONAL_BIT and producer.transaction_start is None:
            producer.transaction_start = first_offset
            self._open[header.producer_id] = first_offset

    def _move_last(self, producer: Producer, now_ms: int) -> None:
        producer.move_at_ms = now_ms + ORDERED_TO_MS
        self._producers[producer.producer_id] = self._producers.pop(producer.producer_id)

    def _new(self, producer_id: int) -> Producer:
        if len(self._producers) >= self._limit:
            self.forget_oldest(max(self._limit // EVICTED_SHARE, 1))
        self.on_new()
        producer = self._producers[producer_id] = Producer(producer_id)
        return producer

    def forget_oldest(self, count: int) -> None:
        """Forget those that have been silent longest: rarely and many, so that a flood of ids costs little for each."""
        idle = (producer for producer in self._producers.values() if producer.transaction_start is None)
        for producer in list(islice(idle, count)):
            del self._producers[producer.producer_id]

    def end_transaction(
        self, header: BatchHeader, marker_offset: int, coordinator_epoch: int, now_ms: int, *, aborted: bool
    ) -> CompletedTransaction | None:
        """Take note of a marker; the transaction that it ends, if the partition had a part in one."""
        producer = self._producers.get(header.producer_id) or self._new(header.producer_id)
        producer.bump_epoch(header.producer_epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.marker_offset = marker_offset
        producer.marker_timestamp = header.max_timestamp
        producer.last_append_ms = now_ms
        self._move_last(producer, now_ms)
        start, producer.transaction_start = producer.transaction_start, None
        if start is None:
            return None
        self._open.pop(header.producer_id, None)
        completed = CompletedTransaction(header.producer_id, start, marker_offset, aborted)
        self._note_decided(completed)
        return completed

    def _note_decided(self, completed: CompletedTransaction) -> None:
        decided = self._decided
        if decided is None:
            decided = self._decided = deque()
        while decided and decided[-1].first_offset >= completed.first_offset:
            decided.pop()
        decided.append(completed)

    def stable_offset_after(self, completed: CompletedTransaction) -> int:
        """The last stable offset once this transaction is over: what its index entry records."""
        return next(iter(self._open.values()), completed.last_offset + 1)

    # -- stability ----------------------------------------------------------------------------------

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of any transaction that is open, or whose marker is not yet replicated."""
        first_open = next(iter(self._open.values()), None)
        if not self._decided:
            return first_open
        first_decided = self._decided[0].first_offset
        return first_decided if first_open is None else min(first_open, first_decided)

    @property
    def has_transactions(self) -> bool:
        return bool(self._open or self._decided)

    def high_watermark_moved(self, high_watermark: int) -> None:
        decided = self._decided
        while decided and decided[0].last_offset < high_watermark:
            decided.popleft()

    @property
    def open_transactions(self) -> dict[int, int]:
        """Producer id -> first offset."""
        return dict(self._open)

    def are_as_at(self, offset: int) -> bool:
        """Has nothing at `offset` or above changed them? Then they need not be found out again when that is cut."""
        decided = self._decided
        if offset < self.known_since or (decided and decided[-1].last_offset >= offset):
            return False
        return all(
            producer.last_offset < offset and producer.marker_offset < offset
            for producer in self._producers.values()
        )

    # -- forgetting ---------------------------------------------------------------------------------

    def expire(self, now_ms: int, expiration_ms: int, most: int | None = None) -> int:
        """Forget producers that have been silent for long (producer.id.expiration.ms); how many were looked at.

        At most `most` are: there may be more as long as it was so many.
        """
        if self.loaded_ms is not None and 0 <= now_ms - self.loaded_ms < min(GRACE_MS, expiration_ms):
            return 0
        seen = 0
        for producer in list(islice(self._producers.values(), most)):
            if producer.transaction_start is not None:
                self._move_last(producer, now_ms)
            elif now_ms - producer.last_append_ms >= expiration_ms:
                del self._producers[producer.producer_id]
            else:
                break
            seen += 1
        return seen

    def restore(self, producers: Iterable[Producer]) -> None:
        """Replace everything by what a snapshot says, except when we last heard of a producer: that only we know."""
        producers = list(producers)
        for producer in producers:
            if (known := self._producers.get(producer.producer_id)) is not None:
                producer.last_append_ms = known.last_append_ms
        producers.sort(key=_last_append)
        self._producers = {producer.producer_id: producer for producer in producers}
        opened = [(p.transaction_start, p.producer_id) for p in producers if p.transaction_start is not None]
        self._open = {producer_id: start for start, producer_id in sorted(opened)}
        self._decided = None

    def clear(self) -> None:
        self.restore(())


def _last_append(producer: Producer) -> int:
    return producer.last_append_ms
