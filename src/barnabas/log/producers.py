"""Producer states of a partition: sequences for idempotence, and open transactions (Kafka's ProducerStateManager).

Theory of operation. For each producer id the last five batches are kept: a producer has at most five requests
in flight, so a retried batch is one of them, and gets the offsets of the original. Any other batch must continue
the sequence.

    known epoch    batch epoch   sequence                       answer
    none           any           any                            accepted: the state may have expired
    e              < e           any                            INVALID_PRODUCER_EPOCH (fenced)
    e              > e           0                              accepted, the state of epoch e is dropped
    e              > e           other                          OUT_OF_ORDER_SEQUENCE_NUMBER
    e              e             equals a remembered batch      duplicate: the offsets of that batch
    e              e             last + 1                       accepted
    e              e             other                          OUT_OF_ORDER_SEQUENCE_NUMBER
    e              e or more     none                           accepted: a coordinator writes for the producer

A transaction is open from its first batch until its marker. read_committed consumers stop at
`first_unstable_offset`, the first offset of an open transaction. An ended transaction counts as unstable until its
marker is below the high watermark. An open transaction whose records are all below the log start does not count until
its next batch; it is kept, because after a crash the log start may be lower again.

`check` and `remember` are separate calls, so that a failed write in between leaves the state unchanged.

Producers expire by the broker's clock, by the time of their last append, not by record timestamps, which the client
sets (a backfill of old records is not idle). They are kept in the order of their last append, to within a second, so
that the ones idle longest are found without a search.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from operator import itemgetter

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.log.producer import SEQUENCE_MASK, ProducerState, RememberedBatch, SavedProducer
from barnabas.log.segments.aborted_index import CompletedTransaction
from barnabas.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
)

MAX_PRODUCERS = 100_000  # per partition; limits the memory of a flood of new producer ids to about 50 MB
ORDERED_TO_MS = 1000
"""A busy producer is moved to the end of the order once in this time, not with each batch."""
GRACE_MS = 3_600_000
"""No producer expires within this time after startup: snapshots of Kafka, and older ones, have the clients' times."""
EVICTED_SHARE = 100  # 1/100 of the producers is evicted at the limit


_new_tuple = tuple.__new__


def _not_counted() -> None:
    """Default of `on_new`, for a log without a broker."""


class ProducerStates:
    """All producers of one partition."""

    def __init__(self, limit: int = MAX_PRODUCERS) -> None:
        self._limit = limit
        self._producers: dict[int, ProducerState] = {}
        self.undecided: dict[int, int] = {}  # producer id -> first offset; in order, because offsets grow
        self.unstable: dict[int, int] = {}
        """Undecided transactions with records at or above the log start, with the offset from which they count."""
        # Ended, but the marker is not yet below the high watermark. Both offsets ascend: a transaction that started
        # later and ended earlier than another one never determines the result, and is left out.
        self.decided: deque[CompletedTransaction] | None = None
        self.known_since = 0
        """Batches and markers from this offset on were replayed; the state below comes from a snapshot."""
        self.loaded_ms: int | None = None
        """Time of loading from files."""
        self._ending: int | None = None
        self.on_new: Callable[[], None] = _not_counted
        """Called before a new producer is added: all partitions share a limit (`producer_budget`)."""

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[ProducerState]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> ProducerState | None:
        return self._producers.get(producer_id)

    # -- before an append ---------------------------------------------------------------------------

    def check(self, header: BatchHeader) -> RememberedBatch | None:
        """Return None for the producer's next batch, the original for a duplicate; raise KafkaError otherwise."""
        _, _, _, _, _, _, _, _, _, producer_id, epoch, sequence, _ = header
        producer = self._producers.get(producer_id)
        if producer is None:
            return None
        if (
            sequence == producer.next_sequence
            and epoch == producer.epoch
            and producer.transaction_start is None
        ):
            return None  # the common case
        return self._check_unusual(producer, header)

    def _check_unusual(self, producer: ProducerState, header: BatchHeader) -> RememberedBatch | None:
        self.check_epoch(producer, header.producer_epoch)
        if header.base_sequence == NO_SEQUENCE:
            return None  # offset commits that a coordinator writes for the producer have no sequence
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
                f"producer {header.producer_id} sent a non-transactional batch during an open transaction",
            )
        return None

    def check_epoch(self, producer: ProducerState, epoch: int) -> None:
        if epoch < producer.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer.producer_id} with epoch {epoch} is fenced by a newer instance with epoch "
                f"{producer.epoch}",
            )

    def check_marker(self, header: BatchHeader, coordinator_epoch: int) -> None:
        """Raise KafkaError if the producer epoch or the coordinator epoch of a marker is stale."""
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return
        self.check_epoch(producer, header.producer_epoch)
        if coordinator_epoch < producer.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"transaction marker of coordinator epoch {coordinator_epoch}, but a coordinator of epoch "
                f"{producer.coordinator_epoch} has already written one",
            )

    # -- after an append ----------------------------------------------------------------------------

    def remember(self, header: BatchHeader, first_offset: int, now_ms: int) -> None:
        """Record a batch that was appended at `now_ms`."""
        _, _, _, _, _, attributes, delta, _, timestamp, producer_id, epoch, sequence, _ = header
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._new(producer_id, first_offset)
        if sequence != NO_SEQUENCE:
            sequence = (sequence + delta) & SEQUENCE_MASK
        batch = _new_tuple(RememberedBatch, (sequence, first_offset + delta, delta, timestamp))
        producer.remember(epoch, batch, now_ms)
        if now_ms >= producer.move_at_ms:
            self._move_last(producer, now_ms)
        if attributes & TRANSACTIONAL_BIT and producer_id not in self.unstable:
            self.unstable[producer_id] = first_offset
            if producer.transaction_start is None:
                producer.transaction_start = first_offset
                self.undecided[producer_id] = first_offset

    def _move_last(self, producer: ProducerState, now_ms: int) -> None:
        producer.move_at_ms = now_ms + ORDERED_TO_MS
        self._producers[producer.producer_id] = self._producers.pop(producer.producer_id)

    def _new(self, producer_id: int, offset: int) -> ProducerState:
        if len(self._producers) >= self._limit:
            self.forget_oldest(max(self._limit // EVICTED_SHARE, 1))
        self.on_new()
        producer = self._producers[producer_id] = ProducerState(producer_id)
        producer.since = offset
        return producer

    def forget_oldest(self, count: int) -> None:
        """Drop the producers idle longest. Called for many at once, so that a flood of ids costs little per id."""
        idle = (producer for producer in self._producers.values() if producer.transaction_start is None)
        for producer in list(islice(idle, count)):
            del self._producers[producer.producer_id]

    def end_transaction(
        self, header: BatchHeader, marker_offset: int, coordinator_epoch: int, now_ms: int, *, aborted: bool
    ) -> CompletedTransaction | None:
        """Record a marker; return the transaction that it ends, if one was open in this partition."""
        producer = self._producers.get(header.producer_id) or self._new(header.producer_id, marker_offset)
        producer.ended_epoch = self._ended_epoch(producer, header)
        producer.bump_epoch(header.producer_epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.marker_offset = marker_offset
        producer.marker_timestamp = header.max_timestamp
        producer.last_append_ms = now_ms
        self._move_last(producer, now_ms)
        start, producer.transaction_start = producer.transaction_start, None
        if start is None:
            return None
        self.undecided.pop(header.producer_id, None)
        completed = CompletedTransaction(header.producer_id, start, marker_offset, aborted)
        if (unstable := self.unstable.pop(header.producer_id, None)) is not None:
            self._note_decided(completed._replace(first_offset=unstable))
        return completed

    def _ended_epoch(self, producer: ProducerState, header: BatchHeader) -> int:
        if producer.epoch != NO_PRODUCER_EPOCH:
            return producer.epoch
        return header.producer_epoch if self._ending is None else self._ending

    @contextmanager
    def ending(self, epoch: int) -> Iterator[None]:
        """In this context the marker of an unknown producer ends a transaction of `epoch`."""
        self._ending = epoch
        try:
            yield
        finally:
            self._ending = None

    def _note_decided(self, completed: CompletedTransaction) -> None:
        decided = self.decided
        if decided is None:
            decided = self.decided = deque()
        while decided and decided[-1].first_offset >= completed.first_offset:
            decided.pop()
        decided.append(completed)

    def stable_offset_after(self, completed: CompletedTransaction) -> int:
        """Last stable offset after this transaction, for its index entry."""
        return next(iter(self.undecided.values()), completed.last_offset + 1)

    # -- undo ---------------------------------------------------------------------------------------

    def save(self, producer_id: int) -> SavedProducer:
        """Save the state of a producer before a pending batch is recorded."""
        known = self._producers.get(producer_id)
        return SavedProducer(
            producer_id, known.copy() if known is not None else None, tuple(self.decided or ())
        )

    def undo(self, saved: list[SavedProducer], high_watermark: int) -> None:
        """Restore the states saved before batches that were not written, newest first."""
        for producer_id, producer, _ in saved:
            self._producers.pop(producer_id, None)
            self.undecided.pop(producer_id, None)
            if producer is not None:
                self._producers[producer_id] = producer
                if producer.transaction_start is not None:
                    self.undecided[producer_id] = producer.transaction_start
        if saved:
            self.undecided = dict(sorted(self.undecided.items(), key=itemgetter(1)))
            self.unstable = dict(self.undecided)
            self.decided = deque(saved[-1].decided)
            self.high_watermark_moved(high_watermark)

    # -- stability ----------------------------------------------------------------------------------

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of all transactions that are open or whose marker is not yet below the high watermark."""
        first_open = next(iter(self.unstable.values()), None)
        if not self.decided:
            return first_open
        first_decided = self.decided[0].first_offset
        return first_decided if first_open is None else min(first_open, first_decided)

    @property
    def has_transactions(self) -> bool:
        return bool(self.unstable or self.decided)

    def high_watermark_moved(self, high_watermark: int) -> None:
        decided = self.decided
        while decided and decided[0].last_offset < high_watermark:
            decided.popleft()

    def log_start_moved(self, log_start: int) -> None:
        """Make open transactions stable whose records are all below `log_start`.

        Their markers may never come: a mirror's leader that restarted at its log start does not have them, while its
        followers do.
        """
        for producer_id, offset in list(self.unstable.items()):
            if offset >= log_start:
                return
            if offset <= self._producers[producer_id].last_offset < log_start:
                del self.unstable[producer_id]

    @property
    def open_transactions(self) -> dict[int, int]:
        """Producer id -> first offset."""
        return dict(self.undecided)

    def roll_back(self, offset: int) -> bool:
        """Restore the state at `offset` after a truncation. False if that needs a replay of the log.

        It does if a marker was removed, or all remembered batches of a producer, but not its first ones.
        """
        decided = self.decided
        if offset < self.known_since or (decided and decided[-1].last_offset >= offset):
            return False
        changed = [
            producer
            for producer in self._producers.values()
            if producer.last_offset >= offset or producer.marker_offset >= offset
        ]
        if not all(producer.can_roll_back(offset) for producer in changed):
            return False
        for producer in changed:
            if producer.since is not None and producer.since >= offset:
                del self._producers[producer.producer_id]
                self.undecided.pop(producer.producer_id, None)
            else:
                producer.roll_back(offset)
                if producer.transaction_start is None:
                    self.undecided.pop(producer.producer_id, None)
        self.unstable = dict(self.undecided)
        return True

    # -- expiry -------------------------------------------------------------------------------------

    def expire(self, now_ms: int, expiration_ms: int, limit: int | None = None) -> int:
        """Remove producers that were idle for `producer.id.expiration.ms`; return the number checked.

        At most `limit` are checked; if it was that many, there may be more.
        """
        if self.loaded_ms is not None and 0 <= now_ms - self.loaded_ms < min(GRACE_MS, expiration_ms):
            return 0
        checked = 0
        for producer in list(islice(self._producers.values(), limit)):
            if producer.producer_id in self.unstable:
                self._move_last(producer, now_ms)
            elif now_ms - producer.last_append_ms >= expiration_ms:
                del self._producers[producer.producer_id]
                self.undecided.pop(producer.producer_id, None)
            else:
                break
            checked += 1
        return checked

    def forget_below(self, offset: int) -> None:
        """Remove producers without a batch or marker from `offset` on: those of the source of a promoted mirror."""
        for producer in list(self._producers.values()):
            if (
                max(producer.last_offset, producer.marker_offset) < offset
                and producer.producer_id not in self.unstable
            ):
                del self._producers[producer.producer_id]
                self.undecided.pop(producer.producer_id, None)

    def restore(self, producers: Iterable[ProducerState]) -> None:
        """Replace the state by that of a snapshot, except for the times of the last appends, if they are known."""
        producers = list(producers)
        for producer in producers:
            if (known := self._producers.get(producer.producer_id)) is not None:
                producer.last_append_ms = known.last_append_ms
        producers.sort(key=_last_append)
        self._producers = {producer.producer_id: producer for producer in producers}
        opened = [(p.transaction_start, p.producer_id) for p in producers if p.transaction_start is not None]
        self.undecided = {producer_id: start for start, producer_id in sorted(opened)}
        self.unstable = dict(self.undecided)
        self.decided = None

    def clear(self) -> None:
        self.restore(())


def _last_append(producer: ProducerState) -> int:
    return producer.last_append_ms
