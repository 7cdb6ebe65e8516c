"""One transactional id: its producer, and the state of its latest transaction (Kafka's TransactionMetadata).

A `Transaction` is immutable. Each transition returns a new one, which becomes a record; `COMES_FROM` rejects
transitions that are not in the table.

*Epochs.* A producer id and an epoch identify one producer instance. Whatever makes an instance obsolete
raises the
epoch: a new instance, a timeout and, with transactions V2, every end of a transaction (KIP-890). Producers
get epochs
up to 32766; one more is reserved so that the last one can still be fenced. After that the transactional id
continues
with another producer id and epoch 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.coordination import ProducerIdAndEpoch

# -- states of a transactional id, and their transitions -------------------------------------------


class TransactionState(IntEnum):
    """Kafka's numbers: they are written to `__transaction_state`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name in Kafka's tools: PrepareCommit."""
        return "".join(word.capitalize() for word in self.name.split("_"))


_S = TransactionState

# No open transaction: a new instance may start, the next transaction may begin, the id may expire.
AT_REST = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
# The outcome is decided, but not yet written to every partition.
DECIDED = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
ENDED = DECIDED | {_S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}

COMES_FROM: dict[TransactionState, frozenset[TransactionState]] = {
    _S.EMPTY: AT_REST,
    _S.ONGOING: AT_REST | {_S.ONGOING},
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    _S.PREPARE_ABORT: AT_REST | {_S.ONGOING, _S.PREPARE_EPOCH_FENCE},
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
    _S.DEAD: AT_REST,
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.ONGOING}),
}
"""The transition table: the states that a state may follow."""

BY_LABEL = {state.label: state for state in TransactionState}


NO_PRODUCER_ID = -1
NO_EPOCH = -1
NOT_STARTED = -1
LAST_EPOCH = 32766  # the highest that a producer gets
NO_TIMEOUT_MS = 0x7FFFFFFF  # as Kafka writes it (KIP-939): another system ends the transaction

V1 = 0  # clients that add partitions by request; Kafka writes 0 for them
V2 = 2  # clients whose epoch rises with every transaction


class IllegalTransitionError(Exception):
    """A transition that the table forbids: a bug, never a client error."""


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
    """The producer id whose request raised the epoch in the last transition, if it may be retried.

    It differs from `producer_id` when the epochs of the previous id were exhausted.
    """
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id to continue with once this transaction is complete."""

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

    @property
    def last_epoch(self) -> int:
        """The epoch in a retry of the request that caused the last transition."""
        if self.previous_producer_id == NO_PRODUCER_ID:
            ended_v2 = self.version >= V2 and self.state in ENDED
            return self.epoch - 1 if ended_v2 else NO_EPOCH
        return self.epoch - 1 if self.previous_producer_id == self.producer_id else LAST_EPOCH

    def has_timed_out(self, now_ms: int) -> bool:
        if self.timeout_ms == NO_TIMEOUT_MS:
            return False
        return self.is_ongoing and self.started_ms + self.timeout_ms < now_ms

    def _step(self, state: TransactionState, **changes: Any) -> Transaction:
        if self.state not in COMES_FROM[state]:
            raise IllegalTransitionError(
                f"{self.transactional_id}: illegal transition from {self.state.label} to {state.label}"
            )
        changes.setdefault("previous_producer_id", NO_PRODUCER_ID)
        return replace(self, state=state, **changes)

    # -- transitions -------------------------------------------------------------------------------

    def initialized(self, epoch: int, timeout_ms: int, now_ms: int, *, asked_by: int) -> Transaction:
        """A producer instance starts, or recovers as `asked_by`, with this epoch."""
        return self._step(
            TransactionState.EMPTY,
            epoch=epoch,
            previous_producer_id=asked_by,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=NOT_STARTED,
            updated_ms=now_ms,
        )

    def rotated(self, producer_id: int, timeout_ms: int, now_ms: int, *, asked_by: int) -> Transaction:
        """The same with another producer id, because the epochs of this one are exhausted."""
        return replace(self.initialized(0, timeout_ms, now_ms, asked_by=asked_by), producer_id=producer_id)

    def with_partitions(self, partitions: Iterable[TopicPartition], version: int, now_ms: int) -> Transaction:
        return self._step(
            TransactionState.ONGOING,
            partitions=self.partitions.union(partitions),
            started_ms=self.started_ms if self.is_ongoing else now_ms,
            updated_ms=now_ms,
            version=version,
        )

    def decided(self, *, committed: bool, version: int, next_producer_id: int, now_ms: int) -> Transaction:
        """Commit or abort.

        With V2 the markers carry a higher epoch, so that no late record joins the next transaction.
        """
        bumps = version >= V2
        return self._step(
            TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT,
            epoch=self.epoch + 1 if bumps else self.epoch,
            started_ms=now_ms if self.is_at_rest else self.started_ms,
            updated_ms=now_ms,
            version=version,
            next_producer_id=next_producer_id,
        )

    def fenced(self, version: int, now_ms: int) -> Transaction:
        """Abort the transaction of an instance that was replaced or timed out; its epoch is fenced."""
        fence = self._step(TransactionState.PREPARE_EPOCH_FENCE)
        if version < V2:  # with V2 the abort raises the epoch itself
            fence = replace(fence, epoch=self.epoch + 1)
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


def check_present(known: Transaction, instance: ProducerIdAndEpoch) -> None:
    """Raise unless this is the latest instance. The epoch after LAST_EPOCH is reserved for fencing."""
    if instance.producer_id != known.producer_id:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"{known.transactional_id} belongs to producer {known.producer_id}, not {instance.producer_id}",
        )
    if instance.epoch != known.epoch or instance.epoch > LAST_EPOCH:
        raise fenced(known, instance)


def fenced(known: Transaction, instance: ProducerIdAndEpoch) -> KafkaError:
    return KafkaError(
        ErrorCode.PRODUCER_FENCED,
        f"producer {instance.producer_id} with epoch {instance.epoch} is not the latest instance of "
        f"{known.transactional_id}: a newer instance has taken over, or its transaction has timed out",
    )
