"""Transaction administration: DescribeProducers 0, DescribeTransactions 0, ListTransactions 0 to 2."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

from barnabas.common import regex as patterns
from barnabas.common.clock import Clock
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.coordination import ask_each
from barnabas.handlers.needs import LedPartitionNeeds, led_partition
from barnabas.network.requests import Result, run_or_continue_in_slices
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
from barnabas.transactions import Filters, Transaction, TransactionCoordinator

if TYPE_CHECKING:
    from barnabas.network.requests import Request

NO_TRANSACTION = -1  # in place of a first offset
LISTED_IN_A_STEP = 16  # names may be long, and a pattern costly


class ListingCoordinators(Protocol):
    @property
    def transactions(self) -> TransactionCoordinator: ...


class ListingNeeds(Protocol):
    """Broker attributes used by DescribeTransactions and ListTransactions."""

    @property
    def clock(self) -> Clock: ...

    @property
    def coordinators(self) -> ListingCoordinators: ...


def describe_producers(
    broker: LedPartitionNeeds, request: Request, message: DescribeProducersRequest
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


def _producers(broker: LedPartitionNeeds, topic: str, index: int) -> PartitionResponse:
    try:
        partition = led_partition(broker, topic, index)
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code)
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
    broker: ListingNeeds, request: Request, message: DescribeTransactionsRequest
) -> None:
    coordinator = broker.coordinators.transactions

    def respond(found: list[Transaction | KafkaError | None]) -> None:
        states = [_described(name, one) for name, one in zip(message.transactional_ids, found, strict=True)]
        request.respond(DescribeTransactionsResponse(transaction_states=states))

    ask_each(message.transactional_ids, coordinator.describe, respond)


def _described(
    transactional_id: str, found: Transaction | KafkaError | None
) -> DescribeTransactionsTransactionState:
    state = DescribeTransactionsTransactionState(transactional_id=transactional_id)
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
            TopicData(topic=topic, partitions=[tp.partition for tp in partitions])
            for topic, partitions in groupby(sorted(found.partitions), key=lambda tp: tp.topic)
        ]
    return state


def list_transactions(
    broker: ListingNeeds, request: Request, message: ListTransactionsRequest
) -> Result[ListTransactionsResponse]:
    if message.transactional_id_pattern and not patterns.is_loaded():
        request.is_large = True
        return _list_with_first_pattern(broker, request, message)
    return _list(broker, request, message)


async def _list_with_first_pattern(
    broker: ListingNeeds, request: Request, message: ListTransactionsRequest
) -> ListTransactionsResponse | None:
    await asyncio.to_thread(patterns.load)
    response = _list(broker, request, message)
    return await response if isinstance(response, Coroutine) else response


def _list(
    broker: ListingNeeds, request: Request, message: ListTransactionsRequest
) -> Result[ListTransactionsResponse]:
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
    return run_or_continue_in_slices(request, _listing(response, known, is_wanted))


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
