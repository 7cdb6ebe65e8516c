"""May this producer write to these partitions now? Its transaction coordinator knows (KIP-890).

Without this check a batch that was delayed could join the next transaction, or open one that nobody will ever end.

    sender                                     question to the coordinator
    Produce 12 on, TxnOffsetCommit 5 on        add the partition to the transaction (transactions V2)
    older                                      is the partition in the transaction?

A partition in which the producer already has an open transaction needs no question. The coordinator is asked directly
when it is this broker, with AddPartitionsToTxn when it is another. Between the question and the append the
transaction may end; the marker tells (`last_marker`).

A coordinator that moves is away for a moment. Whoever is refused then sends the batch again after a while, and what it
sent behind it fails meanwhile for its sequence: so the question is asked again here, a little later, before that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from enum import Enum
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.log import Log
from barnabas.log.producers import NO_MARKER
from barnabas.log_lines import limited_logger
from barnabas.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.transactions.instances import Instance
from barnabas.transactions.shard import Outcome
from barnabas.transactions.transaction import V2
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

Errors = dict[TopicPartition, ErrorCode]

logger = limited_logger(__name__)

_COORDINATOR_IS_AWAY = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


PATIENCE_SECONDS = 1.0  # that a request waits for a coordinator; no client gives one up so soon
AGAIN_SECONDS = 0.02  # as Kafka's add.partitions.to.txn.retry.backoff.ms

_questions: set[asyncio.Task[Errors]] = set()  # under way; the loop itself does not keep them alive


class Sender(Enum):
    """What the client that sent a request can be told, and whether it expects us to add partitions."""

    OLD = "knows no TRANSACTION_ABORTABLE"
    V1 = "adds partitions itself"
    V2 = "leaves it to us"


def sender_of_produce(version: int) -> Sender:
    return Sender.V2 if version >= 12 else Sender.V1 if version >= 11 else Sender.OLD


def sender_of_offset_commit(version: int) -> Sender:
    return Sender.V2 if version >= 5 else Sender.V1 if version >= 4 else Sender.OLD


# -- the partition's own view ---------------------------------------------------------------------------


def has_open(log: Log, instance: Instance) -> bool:
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


def admit(
    broker: Broker,
    sender: Sender,
    transactional_id: str,
    instance: Instance,
    places: Collection[TopicPartition],
    done: Callable[[Errors], None],
) -> None:
    """Ask the coordinator; `done` gets an error for each partition, at once if nothing needs to be waited for."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_SECONDS

    def ask() -> None:
        _ask(broker, sender, transactional_id, instance, places, answered)

    def answered(errors: Errors) -> None:
        is_away = not _COORDINATOR_IS_AWAY.isdisjoint(errors.values())
        if is_away and loop.time() < deadline and _leads_any(broker, places):
            loop.call_later(AGAIN_SECONDS, ask)
        else:
            done({place: _for_sender(error, sender) for place, error in errors.items()})

    ask()


def _leads_any(broker: Broker, places: Collection[TopicPartition]) -> bool:
    """Else there is nothing to wait for: a broker that is about to stop, or cut off, leads nothing."""
    partitions = (broker.replicas.find(*place) for place in places)
    return any(partition is not None and partition.is_writable for partition in partitions)


def _ask(
    broker: Broker,
    sender: Sender,
    transactional_id: str,
    instance: Instance,
    places: Collection[TopicPartition],
    answered: Callable[[Errors], None],
) -> None:
    try:
        leader = broker.coordinators.transactions.leader_of(transactional_id)
    except KafkaError as error:
        answered(dict.fromkeys(places, error.code))
        return
    if leader == broker.node_id:
        _ask_here(broker, sender, transactional_id, instance, places, answered)
    else:
        question = _ask_peer(broker, leader, sender, transactional_id, instance, places)
        task = asyncio.get_running_loop().create_task(question)
        _questions.add(task)
        task.add_done_callback(_questions.discard)
        task.add_done_callback(lambda task: answered(_answer_of(task, places)))


def _answer_of(question: asyncio.Task[Errors], places: Collection[TopicPartition]) -> Errors:
    """Whoever asked hears something, whatever became of the question: a producer waits for it."""
    if not question.cancelled() and question.exception() is None:
        return question.result()
    logger.error("the transaction coordinator could not be asked: %r", question)
    return dict.fromkeys(places, ErrorCode.NETWORK_EXCEPTION)


def _ask_here(
    broker: Broker,
    sender: Sender,
    transactional_id: str,
    instance: Instance,
    places: Collection[TopicPartition],
    done: Callable[[Errors], None],
) -> None:
    def added(result: Outcome | KafkaError) -> None:
        done(dict.fromkeys(places, result.code if isinstance(result, KafkaError) else ErrorCode.NONE))

    def verified(result: Errors | KafkaError) -> None:
        done(dict.fromkeys(places, result.code) if isinstance(result, KafkaError) else result)

    transactions = broker.coordinators.transactions
    if sender is Sender.V2:
        transactions.add_partitions(transactional_id, instance, places, V2, added)
    else:
        transactions.verify(transactional_id, instance, places, verified)


async def _ask_peer(
    broker: Broker,
    leader: int,
    sender: Sender,
    transactional_id: str,
    instance: Instance,
    places: Collection[TopicPartition],
) -> Errors:
    topics: dict[str, list[int]] = {}
    for place in places:
        topics.setdefault(place.topic, []).append(place.partition)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=instance.producer_id,
        producer_epoch=instance.epoch,
        verify_only=sender is not Sender.V2,
        topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
    )
    try:
        response = await broker.peers.send(leader, AddPartitionsToTxnRequest(transactions=[transaction]))
    except KafkaError as error:
        return dict.fromkeys(places, error.code)
    return {
        TopicPartition(topic.name, result.partition_index): ErrorCode(result.partition_error_code)
        for transaction in response.results_by_transaction
        for topic in transaction.topic_results
        for result in topic.results_by_partition
    }


def _for_sender(error: ErrorCode, sender: Sender) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH  # not fatal to a producer: it may abort and go on (KIP-588)
    if error is ErrorCode.TRANSACTION_ABORTABLE and sender is Sender.OLD:
        return ErrorCode.INVALID_TXN_STATE
    return error


def for_producer(error: ErrorCode, sender: Sender) -> ErrorCode:
    """What Produce answers when the coordinator could not be asked: an error that every client tries again after."""
    if error in _COORDINATOR_IS_AWAY or (
        error is ErrorCode.CONCURRENT_TRANSACTIONS and sender is not Sender.V2
    ):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return error


def for_committer(error: ErrorCode) -> ErrorCode:
    """The same for TxnOffsetCommit: try again without looking for another group coordinator."""
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if error in _COORDINATOR_IS_AWAY else error
