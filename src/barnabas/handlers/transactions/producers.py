"""Requests of transactional producers.

InitProducerId 0 to 6, AddPartitionsToTxn 0 to 5, AddOffsetsToTxn 0 to 4, EndTxn 0 to 5.

- InitProducerId 6 may request transactions without a timeout, which another system ends (KIP-939). Resuming such a
  transaction (KeepPreparedTxn) is not supported, as in Apache Kafka 4.3.
- Clients of old versions do not know PRODUCER_FENCED; they get INVALID_PRODUCER_EPOCH, which has the same meaning.
- AddPartitionsToTxn 4 and 5 are sent by brokers: several transactions at a time, to add or only to verify.
- EndTxn 5 is transactions V2: the response has the producer id and epoch to continue with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.coordination import ProducerIdAndEpoch, ask_each
from barnabas.groups import GroupCoordinator
from barnabas.handlers.needs import HasConfig, HasImage
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS, INTERNAL_TOPICS
from barnabas.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from barnabas.transactions import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    V1,
    V2,
    ProducerIds,
    TransactionCoordinator,
    TransactionResult,
)

if TYPE_CHECKING:
    from barnabas.network.requests import Request, Result

FIRST_BETWEEN_BROKERS = 4  # of AddPartitionsToTxn
FIRST_OF_V2 = 5  # of EndTxn and AddPartitionsToTxn
# The first versions whose clients know PRODUCER_FENCED (KIP-588).
KNOWS_FENCED = 2
INIT_KNOWS_FENCED = 4

Done = Callable[[list[AddPartitionsToTxnTopicResult]], None]


class ProducerCoordinators(Protocol):
    @property
    def groups(self) -> GroupCoordinator: ...

    @property
    def transactions(self) -> TransactionCoordinator: ...


class TransactionNeeds(HasConfig, HasImage, Protocol):
    """Broker attributes used by transactional producers' requests."""

    @property
    def producer_ids(self) -> ProducerIds: ...

    @property
    def coordinators(self) -> ProducerCoordinators: ...


# -- InitProducerId -----------------------------------------------------------------------------------


def init_producer_id(
    broker: TransactionNeeds, request: Request, message: InitProducerIdRequest
) -> Result[InitProducerIdResponse]:
    if (message.producer_id == NO_PRODUCER_ID) != (message.producer_epoch == NO_EPOCH):
        return _not_initialized(ErrorCode.INVALID_REQUEST)
    if not broker.producer_ids.is_ready:
        return _init_from_new_block(broker, request, message)
    return _init(broker, request, message)


async def _init_from_new_block(
    broker: TransactionNeeds, request: Request, message: InitProducerIdRequest
) -> InitProducerIdResponse | None:
    try:
        await broker.producer_ids.refill()
    except KafkaError as error:  # without a controller: the client retries
        return _not_initialized(error.code)
    return _init(broker, request, message)


def _init(
    broker: TransactionNeeds, request: Request, message: InitProducerIdRequest
) -> InitProducerIdResponse | None:
    if message.transactional_id is None:
        producer_id = broker.producer_ids.take()
        assert producer_id is not None  # checked by the callers
        return InitProducerIdResponse(producer_id=producer_id)
    if refusal := _refusal(broker, message):
        return _not_initialized(refusal)
    values = ProducerIdAndEpoch(message.producer_id, message.producer_epoch)
    broker.coordinators.transactions.initialize(
        message.transactional_id,
        values if values.producer_id != NO_PRODUCER_ID else None,
        NO_TIMEOUT_MS if message.enable2_pc else message.transaction_timeout_ms,
        lambda result: request.respond(_initialized(result, request.version)),
    )
    return None


def _refusal(broker: TransactionNeeds, message: InitProducerIdRequest) -> ErrorCode:
    """Return Kafka's error for a transactional id that cannot be initialized."""
    if not message.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if message.keep_prepared_txn:
        return ErrorCode.UNSUPPORTED_VERSION
    if message.enable2_pc and not broker.config["transaction.two.phase.commit.enable"]:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if (
        not message.enable2_pc
        and message.transaction_timeout_ms > broker.config["transaction.max.timeout.ms"]
    ):
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE if message.transaction_timeout_ms > 0 else ErrorCode.INVALID_TRANSACTION_TIMEOUT


def _initialized(result: TransactionResult | KafkaError, version: int) -> InitProducerIdResponse:
    error = _code(result, version, INIT_KNOWS_FENCED)
    if error or isinstance(result, KafkaError):
        return _not_initialized(error)
    return InitProducerIdResponse(
        producer_id=result.transaction.producer_id, producer_epoch=result.transaction.epoch
    )


def _not_initialized(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_epoch=NO_EPOCH)


def _code(result: TransactionResult | KafkaError, version: int, knows_fenced: int) -> ErrorCode:
    error = result.code if isinstance(result, KafkaError) else result.error
    if error is ErrorCode.PRODUCER_FENCED and version < knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


# -- AddPartitionsToTxn, AddOffsetsToTxn ----------------------------------------------------------------


def add_partitions_to_txn(
    broker: TransactionNeeds, request: Request, message: AddPartitionsToTxnRequest
) -> None:
    if request.version < FIRST_BETWEEN_BROKERS:
        _add_of_client(broker, request, message)
    else:
        _add_of_brokers(broker, request, message)


def _add_of_client(broker: TransactionNeeds, request: Request, message: AddPartitionsToTxnRequest) -> None:
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=message.v3_and_below_transactional_id,
        producer_id=message.v3_and_below_producer_id,
        producer_epoch=message.v3_and_below_producer_epoch,
        topics=message.v3_and_below_topics,
    )

    def done(results: list[AddPartitionsToTxnTopicResult]) -> None:
        request.respond(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))

    _add(broker, request.version, transaction, done)


def _add_of_brokers(broker: TransactionNeeds, request: Request, message: AddPartitionsToTxnRequest) -> None:
    def add(transaction: AddPartitionsToTxnTransaction, done: Done) -> None:
        _add(broker, request.version, transaction, done)

    def respond(added: list[list[AddPartitionsToTxnTopicResult]]) -> None:
        results = [
            AddPartitionsToTxnResult(transactional_id=one.transactional_id, topic_results=topics)
            for one, topics in zip(message.transactions, added, strict=True)
        ]
        request.respond(AddPartitionsToTxnResponse(results_by_transaction=results))

    ask_each(message.transactions, add, respond)


def _add(
    broker: TransactionNeeds,
    version: int,
    transaction: AddPartitionsToTxnTransaction,
    done: Done,
) -> None:
    """Add the partitions of one transaction, or verify them: all or none."""
    partitions = [
        TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions
    ]
    refused = {tp: error for tp in partitions if (error := _why_not_added(broker, version, tp))}
    if refused:
        done(
            _topic_results(transaction.topics, lambda tp: refused.get(tp, ErrorCode.OPERATION_NOT_ATTEMPTED))
        )
        return
    instance = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)

    def added(result: TransactionResult | KafkaError) -> None:
        error = _code(result, version, KNOWS_FENCED)
        done(_topic_results(transaction.topics, lambda _: error))

    def verified(result: dict[TopicPartition, ErrorCode] | KafkaError) -> None:
        if isinstance(result, KafkaError):
            added(result)
        else:
            done(_topic_results(transaction.topics, result.__getitem__))

    coordinator = broker.coordinators.transactions
    if transaction.verify_only:
        coordinator.verify(transaction.transactional_id, instance, partitions, verified)
    else:
        client = V2 if version >= FIRST_OF_V2 else V1
        coordinator.add_partitions(transaction.transactional_id, instance, partitions, client, added)


def _why_not_added(broker: TransactionNeeds, version: int, tp: TopicPartition) -> ErrorCode:
    """Offsets are added through AddOffsetsToTxn: clients must not add internal topics."""
    if version < FIRST_BETWEEN_BROKERS and tp.topic in INTERNAL_TOPICS:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = broker.image.topics.get(tp.topic)
    if topic is None or topic.partition(tp.partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    mirror = broker.image.mirrors.get(topic.topic_id)
    return ErrorCode.NONE if mirror is None or mirror.is_own else ErrorCode.POLICY_VIOLATION


def _topic_results(
    topics: list[AddPartitionsToTxnTopic], error_of: Callable[[TopicPartition], ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=error_of(TopicPartition(topic.name, index))
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def add_offsets_to_txn(
    broker: TransactionNeeds, request: Request, message: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | None:
    """Add the partition of `__consumer_offsets` that holds a group's offsets to a transaction."""
    try:
        index = broker.coordinators.groups.shard_index(message.group_id)
    except KafkaError as error:
        return AddOffsetsToTxnResponse(error_code=error.code)

    def done(result: TransactionResult | KafkaError) -> None:
        error = _code(result, request.version, KNOWS_FENCED)
        request.respond(AddOffsetsToTxnResponse(error_code=error))

    broker.coordinators.transactions.add_partitions(
        message.transactional_id,
        ProducerIdAndEpoch(message.producer_id, message.producer_epoch),
        [TopicPartition(CONSUMER_OFFSETS, index)],
        V1,
        done,
    )
    return None


# -- EndTxn ---------------------------------------------------------------------------------------------


def end_txn(broker: TransactionNeeds, request: Request, message: EndTxnRequest) -> None:
    def done(result: TransactionResult | KafkaError) -> None:
        error = _code(result, request.version, KNOWS_FENCED)
        if isinstance(result, KafkaError):
            request.respond(EndTxnResponse(error_code=error))
            return
        ended = result.transaction
        if ended.is_decided:
            ended = ended.completed(ended.updated_ms)  # for the producer to continue with
        request.respond(EndTxnResponse(producer_id=ended.producer_id, producer_epoch=ended.epoch))

    broker.coordinators.transactions.end(
        message.transactional_id,
        ProducerIdAndEpoch(message.producer_id, message.producer_epoch),
        committed=message.committed,
        version=V2 if request.version >= FIRST_OF_V2 else V1,
        done=done,
    )
