"""One transactional id: who produces under it, and how far its latest transaction has come.

A `Transaction` does not change. Each step of its life gives a new one, which becomes a record; the steps
check the table in `states.py`, so that no request can lead into a state that does not follow.

*Epochs.* A producer id and an epoch name one instance of a producer. Whatever makes an instance obsolete raises the
epoch: a new instance, a timeout and, with transactions V2, every end of a transaction (KIP-890). Producers
get epochs up to 32766; one more is kept free so that the last of them can still be fenced. After that the
transactional id goes on with another producer id and epoch 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from barnabas.transactions.states import AT_REST, COMES_FROM, DECIDED, TransactionState
from barnabas.types import TopicPartition

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NOT_STARTED = -1
LAST_EPOCH = 32766  # the highest that a producer gets

V1 = 0  # clients that add partitions by request; Kafka writes 0 for them
V2 = 2  # clients whose epoch rises with every transaction


class IllegalTransitionError(Exception):
    """The coordinator tried what its own table forbids: a bug, never a client's fault."""


@dataclass(frozen=True, slots=True)
class Transaction:
    transactional_id: str
    producer_id: int
    timeout_ms: int
    updated_ms: int
    epoch: int = NO_EPOCH
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NOT_STARTED
    version: int = V1
    previous_producer_id: int = NO_PRODUCER_ID
    """The id that the last step gave up because its epochs were used: a retry may still name it."""
    next_producer_id: int = NO_PRODUCER_ID
    """The id to go on with once this transaction is complete."""
    last_epoch: int = field(default=NO_EPOCH, compare=False)
    """The epoch that the last step raised at the producer's own wish; an InitProducerId that is sent again names it.

    Kafka's record has no place for it: after a move of the coordinator such a retry is fenced, as in Kafka.
    """

    @property
    def is_at_rest(self) -> bool:
        return self.state in AT_REST

    @property
    def is_decided(self) -> bool:
        return self.state in DECIDED

    @property
    def is_ongoing(self) -> bool:
        return self.state is TransactionState.ONGOING

    @property
    def epochs_are_used(self) -> bool:
        return self.epoch >= LAST_EPOCH

    def has_timed_out(self, now_ms: int) -> bool:
        return self.is_ongoing and self.started_ms + self.timeout_ms < now_ms

    def _step(self, state: TransactionState, **changes: Any) -> Transaction:
        if self.state not in COMES_FROM[state]:
            raise IllegalTransitionError(
                f"{self.transactional_id}: {self.state.label} is not followed by {state.label}"
            )
        changes.setdefault("previous_producer_id", NO_PRODUCER_ID)
        return replace(self, state=state, **changes)

    # -- the steps of its life ----------------------------------------------------------------------

    def initialized(self, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """An instance of the producer starts, or starts over, under this epoch."""
        return self._step(
            TransactionState.EMPTY,
            epoch=epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=NOT_STARTED,
            updated_ms=now_ms,
        )

    def rotated(self, producer_id: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """The same, under another producer id, because the epochs of this one are used."""
        fresh = self.initialized(0, last_epoch, timeout_ms, now_ms)
        return replace(fresh, producer_id=producer_id, previous_producer_id=self.producer_id)

    def with_partitions(self, partitions: Iterable[TopicPartition], version: int, now_ms: int) -> Transaction:
        return self._step(
            TransactionState.ONGOING,
            partitions=self.partitions.union(partitions),
            started_ms=self.started_ms if self.is_ongoing else now_ms,
            updated_ms=now_ms,
            version=version,
        )

    def decided(self, *, committed: bool, version: int, next_producer_id: int, now_ms: int) -> Transaction:
        """Commit or abort. With V2 the markers carry a higher epoch, so that nothing late joins what follows."""
        bumps = version >= V2
        return self._step(
            TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT,
            epoch=self.epoch + 1 if bumps else self.epoch,
            last_epoch=self.epoch if bumps else self.last_epoch,
            started_ms=now_ms if self.is_at_rest else self.started_ms,
            updated_ms=now_ms,
            version=version,
            next_producer_id=next_producer_id,
        )

    def fenced(self, version: int, now_ms: int) -> Transaction:
        """Abort what an instance that is gone, or too slow, left open; its epoch is worth nothing any more."""
        fence = self._step(TransactionState.PREPARE_EPOCH_FENCE)
        if version < V2:  # with V2 the abort raises the epoch itself
            fence = replace(fence, epoch=self.epoch + 1, last_epoch=NO_EPOCH)
        return fence.decided(committed=False, version=version, next_producer_id=NO_PRODUCER_ID, now_ms=now_ms)

    def completed(self, now_ms: int) -> Transaction:
        """Every partition has its marker."""
        committed = self.state is TransactionState.PREPARE_COMMIT
        done = self._step(
            TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT,
            partitions=frozenset(),
            next_producer_id=NO_PRODUCER_ID,
            updated_ms=now_ms,
        )
        if self.next_producer_id == NO_PRODUCER_ID:
            return done
        return replace(
            done, producer_id=self.next_producer_id, epoch=0, previous_producer_id=self.producer_id
        )

    def dead(self) -> Transaction:
        return self._step(TransactionState.DEAD, partitions=frozenset())
