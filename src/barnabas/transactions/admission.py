"""May this producer write to these partitions now? Its transaction coordinator knows (KIP-890).

Without this check a batch that was delayed could join the next transaction, or open one that is never ended.

    sender                                     question to the coordinator
    Produce 12 on, TxnOffsetCommit 5 on        add the partition to the transaction (transactions V2)
    older                                      is the partition in the transaction?

A partition in which the producer already has an open transaction needs no question. Between the question and the
append the transaction may end; the marker tells (`last_marker`).

A coordinator that moves is away for a moment. A client that is refused then sends the batch again after a while, and
what it sent behind it fails meanwhile for its sequence: so the question is asked again here, a little later, before
that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from typing import NamedTuple, Protocol

from barnabas.coordination.channel import PASSING, Channel, Done, CoordinatorRequest, Retry
from barnabas.coordination.shard import ProducerIdAndEpoch
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.log.log import Log
from barnabas.log.producer import NO_MARKER
from barnabas.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.replication.manager import ReplicaManager
from barnabas.transactions.coordinator import TransactionCoordinator
from barnabas.transactions.shard import Outcome
from barnabas.transactions.transaction import V2
from barnabas.common.types import TopicPartition

Errors = dict[TopicPartition, ErrorCode]

# No client gives up a request within a second; the pause is Kafka's add.partitions.to.txn.retry.backoff.ms.
RETRY = Retry(first_pause=0.02, seconds=1.0)
LARGEST_SEQUENCE = 0x7FFFFFFF
MOST_REFUSALS = 10_000  # that are remembered at a time


class Sender(Enum):
    """Which errors the client of a request knows, and whether it expects us to add partitions."""

    OLD = "knows no TRANSACTION_ABORTABLE"
    V1 = "adds partitions itself"
    V2 = "leaves it to us"


def sender_of_produce(version: int) -> Sender:
    return Sender.V2 if version >= 12 else Sender.V1 if version >= 11 else Sender.OLD


def sender_of_offset_commit(version: int) -> Sender:
    return Sender.V2 if version >= 5 else Sender.V1 if version >= 4 else Sender.OLD


# -- the partition's own view ---------------------------------------------------------------------------


def has_open(log: Log, instance: ProducerIdAndEpoch) -> bool:
    """Is the producer's transaction already known to be open in this partition?"""
    producer = log.producers.get(instance.producer_id)
    return (
        producer is not None and producer.epoch == instance.epoch and producer.transaction_start is not None
    )


def last_marker(log: Log, producer_id: int) -> int:
    """Changes when a transaction of the producer ends in this partition."""
    producer = log.producers.get(producer_id)
    return NO_MARKER if producer is None else producer.marker_offset


# -- the coordinator's view -------------------------------------------------------------------------------


class TransactionVerification(NamedTuple):
    """The producer that wants to write, and how it talks to us."""

    sender: Sender
    transactional_id: str
    instance: ProducerIdAndEpoch


class Host(Protocol):
    """What is needed from the broker."""

    @property
    def replicas(self) -> ReplicaManager: ...


class AddPartitionsToTxnManager:
    """Asks transaction coordinators, on this broker and on others."""

    def __init__(self, host: Host, channel: Channel, coordinator: TransactionCoordinator) -> None:
        self._host = host
        self._channel = channel
        self._coordinator = coordinator
        self.refused_sequences: dict[tuple[TopicPartition, ProducerIdAndEpoch], int] = {}
        """The first sequence of batches that were not admitted to partitions of ours."""

    def ask(
        self, applicant: TransactionVerification, places: Collection[TopicPartition], done: Callable[[Errors], None]
    ) -> None:
        """`done` gets an error for each partition, at once if nothing needs to be waited for."""

        def answered(outcome: Errors | KafkaError) -> None:
            errors = dict.fromkeys(places, outcome.code) if isinstance(outcome, KafkaError) else outcome
            done({place: _for_sender(error, applicant.sender) for place, error in errors.items()})

        question = _AddOrVerify(self._coordinator, self._host.replicas, applicant, places)
        self._channel.ask(question, answered, RETRY)

    def note_refusal(self, place: TopicPartition, instance: ProducerIdAndEpoch, sequence: int) -> None:
        """The client will send the batch again: what it sent after it must not overtake it."""
        refused, key = self.refused_sequences, (place, instance)
        if len(refused) < MOST_REFUSALS:
            refused[key] = min(refused.get(key, LARGEST_SEQUENCE), sequence)


class _AddOrVerify(CoordinatorRequest[Errors]):
    """AddPartitionsToTxn of one transaction: adds partitions, or only verifies that they are added."""

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        replicas: ReplicaManager,
        applicant: TransactionVerification,
        places: Collection[TopicPartition],
    ) -> None:
        self._coordinator = coordinator
        self._replicas = replicas
        self._applicant = applicant
        self._places = places

    def leader(self) -> int:
        return self._coordinator.leader_of(self._applicant.transactional_id)

    def answer_here(self, done: Done[Errors]) -> None:
        places = self._places
        sender, transactional_id, instance = self._applicant

        def added(result: Outcome | KafkaError) -> None:
            done(result if isinstance(result, KafkaError) else dict.fromkeys(places, ErrorCode.NONE))

        if sender is Sender.V2:
            self._coordinator.add_partitions(transactional_id, instance, places, V2, added)
        else:
            self._coordinator.verify(transactional_id, instance, places, done)

    def request(self) -> AddPartitionsToTxnRequest:
        sender, transactional_id, instance = self._applicant
        topics: dict[str, list[int]] = {}
        for place in self._places:
            topics.setdefault(place.topic, []).append(place.partition)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=instance.producer_id,
            producer_epoch=instance.epoch,
            verify_only=sender is not Sender.V2,
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

    def passes(self, outcome: Errors | KafkaError) -> bool:
        if isinstance(outcome, KafkaError):
            return outcome.code in PASSING
        return not PASSING.isdisjoint(outcome.values())

    def is_wanted(self) -> bool:
        """A broker that is about to stop, or cut off, leads nothing: then there is nothing to wait for."""
        partitions = (self._replicas.find(*place) for place in self._places)
        return any(partition is not None and partition.is_writable for partition in partitions)


# -- errors for clients --------------------------------------------------------------------------------


def _for_sender(error: ErrorCode, sender: Sender) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH  # not fatal to a producer: it may abort and go on (KIP-588)
    if error is ErrorCode.TRANSACTION_ABORTABLE and sender is Sender.OLD:
        return ErrorCode.INVALID_TXN_STATE
    return error


def for_producer(error: ErrorCode, sender: Sender) -> ErrorCode:
    """What Produce answers when the coordinator could not be asked: an error that every client tries again after."""
    if error in PASSING or (error is ErrorCode.CONCURRENT_TRANSACTIONS and sender is not Sender.V2):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return error


def for_committer(error: ErrorCode) -> ErrorCode:
    """The same for TxnOffsetCommit: try again without looking for another group coordinator."""
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if error in PASSING else error
