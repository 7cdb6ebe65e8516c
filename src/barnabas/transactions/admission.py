"""Verification of transactional writes with the transaction coordinator (KIP-890).

Without this check a delayed batch could join the next transaction, or open one that is never ended.

    sender                                     request to the coordinator
    Produce 12 on, TxnOffsetCommit 5 on        add the partition to the transaction (transactions V2)
    older                                      verify that the partition is in the transaction

A partition in which the producer already has an open transaction needs no verification. The transaction may
end between the verification and the append; its marker shows it (`has_ended`). The marker of the previous
transaction may also arrive then, because a V2 producer continues before its markers are written: the
verification is repeated (`ended_previous`). Kafka answers CONCURRENT_TRANSACTIONS while the previous
transaction is open in the partition (KAFKA-18575), and INVALID_TXN_STATE if it has no records there.

A coordinator that moves is unavailable for a moment. A client that gets an error then resends the batch after
a while, and its later batches fail meanwhile with a sequence error. The verification is therefore retried
here first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from typing import NamedTuple

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.coordination import (
    RETRIABLE_ERRORS,
    Channel,
    CoordinatorRequest,
    Done,
    ProducerIdAndEpoch,
    Retry,
)
from barnabas.log import NO_MARKER, Log
from barnabas.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.replication import ReplicaManager
from barnabas.transactions.coordinator import TransactionCoordinator
from barnabas.transactions.shard import TransactionResult
from barnabas.transactions.transaction import V2

Errors = dict[TopicPartition, ErrorCode]

# No client abandons a request within a second; the pause is Kafka's add.partitions.to.txn.retry.backoff.ms.
RETRY = Retry(first_pause=0.02, seconds=1.0)
MAX_SEQUENCE = 0x7FFFFFFF
MAX_REFUSALS = 10_000  # remembered at a time


class ClientVersion(Enum):
    """Client capabilities: the errors it knows, and whether the broker adds partitions for it."""

    OLD = "does not know TRANSACTION_ABORTABLE"
    V1 = "sends AddPartitionsToTxn"
    V2 = "partitions are added by the broker"


def sender_of_produce(version: int) -> ClientVersion:
    return ClientVersion.V2 if version >= 12 else ClientVersion.V1 if version >= 11 else ClientVersion.OLD


def sender_of_offset_commit(version: int) -> ClientVersion:
    return ClientVersion.V2 if version >= 5 else ClientVersion.V1 if version >= 4 else ClientVersion.OLD


# -- the partition's own view ---------------------------------------------------------------------------


def has_open(log: Log, instance: ProducerIdAndEpoch) -> bool:
    """True if the producer's transaction is open in this partition."""
    producer = log.producers.get(instance.producer_id)
    return (
        producer is not None and producer.epoch == instance.epoch and producer.transaction_start is not None
    )


def last_end(log: Log, producer_id: int) -> int:
    """Offset of the last marker of a producer in a partition; changes with every end of a transaction."""
    producer = log.producers.get(producer_id)
    return NO_MARKER if producer is None else producer.marker_offset


def has_ended(before: int, log: Log, instance: ProducerIdAndEpoch) -> bool:
    """True if the producer's transaction has ended in this partition since `last_end` was `before`."""
    ended_epoch = _ended_epoch(before, log, instance.producer_id)
    return ended_epoch is not None and ended_epoch >= instance.epoch


def ended_previous(before: int, log: Log, instance: ProducerIdAndEpoch) -> bool:
    """True if the producer's previous transaction, one of a lower epoch, has ended since `before`."""
    ended_epoch = _ended_epoch(before, log, instance.producer_id)
    return ended_epoch is not None and ended_epoch < instance.epoch


def _ended_epoch(before: int, log: Log, producer_id: int) -> int | None:
    producer = log.producers.get(producer_id)
    return None if producer is None or producer.marker_offset == before else producer.ended_epoch


# -- the coordinator's view -------------------------------------------------------------------------------


class TransactionVerification(NamedTuple):
    """The producer instance that wants to write, and its client's capabilities."""

    sender: ClientVersion
    transactional_id: str
    instance: ProducerIdAndEpoch


class AddPartitionsToTxnManager:
    """Sends AddPartitionsToTxn to transaction coordinators, local and remote."""

    def __init__(
        self, replicas: ReplicaManager, channel: Channel, coordinator: TransactionCoordinator
    ) -> None:
        self._replicas = replicas
        self._channel = channel
        self._coordinator = coordinator
        self.refused_sequences: dict[tuple[TopicPartition, ProducerIdAndEpoch], int] = {}
        """First sequence of rejected batches, by partition and producer."""

    def ask(
        self,
        applicant: TransactionVerification,
        partitions: Collection[TopicPartition],
        done: Callable[[Errors], None],
    ) -> None:
        """Add or verify; `done` gets an error code per partition, immediately if no request is needed."""

        def answered(outcome: Errors | KafkaError) -> None:
            errors = dict.fromkeys(partitions, outcome.code) if isinstance(outcome, KafkaError) else outcome
            done({tp: _for_sender(error, applicant.sender) for tp, error in errors.items()})

        question = _AddOrVerify(self._coordinator, self._replicas, applicant, partitions)
        self._channel.ask(question, answered, RETRY)

    def note_refusal(self, tp: TopicPartition, instance: ProducerIdAndEpoch, sequence: int) -> None:
        """Remember a rejected batch: the client will resend it, and later batches must not overtake it."""
        refused, key = self.refused_sequences, (tp, instance)
        if len(refused) < MAX_REFUSALS:
            refused[key] = min(refused.get(key, MAX_SEQUENCE), sequence)


class _AddOrVerify(CoordinatorRequest[Errors]):
    """AddPartitionsToTxn of one transaction: adds partitions, or only verifies them."""

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        replicas: ReplicaManager,
        applicant: TransactionVerification,
        partitions: Collection[TopicPartition],
    ) -> None:
        self._coordinator = coordinator
        self._replicas = replicas
        self._applicant = applicant
        self._partitions = partitions

    def leader(self) -> int:
        return self._coordinator.leader_of(self._applicant.transactional_id)

    def handle_locally(self, done: Done[Errors]) -> None:
        partitions = self._partitions
        sender, transactional_id, instance = self._applicant

        def added(result: TransactionResult | KafkaError) -> None:
            done(result if isinstance(result, KafkaError) else dict.fromkeys(partitions, ErrorCode.NONE))

        if sender is ClientVersion.V2:
            self._coordinator.add_partitions(transactional_id, instance, partitions, V2, added)
        else:
            self._coordinator.verify(transactional_id, instance, partitions, done)

    def request(self) -> AddPartitionsToTxnRequest:
        sender, transactional_id, instance = self._applicant
        topics: dict[str, list[int]] = {}
        for tp in self._partitions:
            topics.setdefault(tp.topic, []).append(tp.partition)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=instance.producer_id,
            producer_epoch=instance.epoch,
            verify_only=sender is not ClientVersion.V2,
            topics=[
                AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()
            ],
        )
        return AddPartitionsToTxnRequest(transactions=[transaction])

    def read(self, response: AddPartitionsToTxnResponse) -> Errors:
        return {
            TopicPartition(topic.name, result.partition_index): ErrorCode(result.partition_error_code)
            for transaction in response.results_by_transaction
            for topic in transaction.topic_results
            for result in topic.results_by_partition
        }

    def is_retriable(self, outcome: Errors | KafkaError) -> bool:
        if isinstance(outcome, KafkaError):
            return outcome.code in RETRIABLE_ERRORS
        return not RETRIABLE_ERRORS.isdisjoint(outcome.values())

    def is_cancelled(self) -> bool:
        """True when this broker is stopping or fenced: it leads nothing, so stop retrying."""
        partitions = (self._replicas.find(*tp) for tp in self._partitions)
        return not any(partition is not None and partition.is_writable for partition in partitions)


# -- errors for clients --------------------------------------------------------------------------------


def _for_sender(error: ErrorCode, sender: ClientVersion) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED:
        return (
            ErrorCode.INVALID_PRODUCER_EPOCH
        )  # not fatal to a producer: it may abort and continue (KIP-588)
    if error is ErrorCode.TRANSACTION_ABORTABLE and sender is ClientVersion.OLD:
        return ErrorCode.INVALID_TXN_STATE
    return error


def for_producer(error: ErrorCode, sender: ClientVersion) -> ErrorCode:
    """The Produce error when the coordinator cannot be reached: one that every client retries."""
    if error in RETRIABLE_ERRORS or (
        error is ErrorCode.CONCURRENT_TRANSACTIONS and sender is not ClientVersion.V2
    ):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return error


def for_committer(error: ErrorCode) -> ErrorCode:
    """The same for TxnOffsetCommit: retry without looking for another group coordinator."""
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if error in RETRIABLE_ERRORS else error
