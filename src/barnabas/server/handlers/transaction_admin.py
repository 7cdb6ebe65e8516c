"""What administrators ask about transactions: DescribeProducers 0, DescribeTransactions 0, ListTransactions 0 to 2."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from barnabas.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTransactionState,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsTransactionState,
    PartitionResponse,
    ProducerState,
    TopicData,
    TopicResponse,
)
from barnabas.server.turns import at_once_or_in_turns
from barnabas.transactions.listing import Filters
from barnabas.transactions.transaction import Transaction

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.dispatch import Request

NO_TRANSACTION = -1  # in place of a first offset
LISTED_IN_A_STEP = 16  # names may be long, and a pattern costly


def describe_producers(
    broker: Broker, request: Request, message: DescribeProducersRequest
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_producers(broker, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in message.topics
        ]
    )


def _producers(broker: Broker, topic: str, index: int) -> PartitionResponse:
    partition = broker.replicas.find(topic, index)
    if partition is None:
        return PartitionResponse(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    problem = partition.leadership_error(epoch=-1)
    if problem:
        return PartitionResponse(partition_index=index, error_code=problem)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=NO_TRANSACTION
                if producer.transaction_start is None
                else producer.transaction_start,
            )
            for producer in partition.log.producers
        ],
    )


def describe_transactions(
    broker: Broker, request: Request, message: DescribeTransactionsRequest
) -> DescribeTransactionsResponse | None:
    states = [
        DescribeTransactionsTransactionState(transactional_id=name) for name in message.transactional_ids
    ]
    response = DescribeTransactionsResponse(transaction_states=states)
    open_answers = len(states)
    if not states:
        return response

    def done(state: DescribeTransactionsTransactionState, result: Transaction | KafkaError | None) -> None:
        nonlocal open_answers
        _fill(state, result)
        open_answers -= 1
        if not open_answers:
            request.respond(response)

    for state in states:
        broker.coordinators.transactions.describe(
            state.transactional_id,
            lambda result, at=state: done(at, result),  # type: ignore[misc]
        )
    return None


def _fill(state: DescribeTransactionsTransactionState, found: Transaction | KafkaError | None) -> None:
    if found is None:
        state.error_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    elif isinstance(found, KafkaError):
        state.error_code = found.code
    else:
        state.transaction_state = found.state.label
        state.transaction_timeout_ms = found.timeout_ms
        state.transaction_start_time_ms = found.started_ms
        state.producer_id = found.producer_id
        state.producer_epoch = found.epoch
        state.topics = [
            TopicData(topic=topic, partitions=[place.partition for place in places])
            for topic, places in groupby(sorted(found.partitions), key=lambda place: place.topic)
        ]


def list_transactions(
    broker: Broker, request: Request, message: ListTransactionsRequest
) -> ListTransactionsResponse | Coroutine[Any, Any, ListTransactionsResponse]:
    runtime = broker.coordinators.transactions.runtime
    if runtime.is_loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    filters = Filters(
        message.state_filters,
        message.producer_id_filters,
        message.duration_filter,
        message.transactional_id_pattern,
    )
    known = [transaction for _, shard in runtime.shards() for transaction in shard]
    try:
        is_wanted = filters.test(broker.clock.now_ms())
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    response = ListTransactionsResponse(unknown_state_filters=filters.unknown_states)
    return at_once_or_in_turns(request, _listing(response, known, is_wanted))


def _listing(
    response: ListTransactionsResponse, known: list[Transaction], is_wanted: Callable[[Transaction], bool]
) -> Generator[None, None, ListTransactionsResponse]:
    for number, transaction in enumerate(known, 1):
        if is_wanted(transaction):
            response.transaction_states.append(_listed(transaction))
        if number % LISTED_IN_A_STEP == 0 and number < len(known):
            yield
    return response


def _listed(transaction: Transaction) -> ListTransactionsTransactionState:
    return ListTransactionsTransactionState(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        transaction_state=transaction.state.label,
    )
