"""InitializeShareGroupState, ReadShareGroupState, WriteShareGroupState, DeleteShareGroupState and
ReadShareGroupStateSummary: what leaders of share partitions and group coordinators ask the share coordinator.

Each partition of a request has its own place in `__share_group_state`. The answer waits for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from barnabas.errors import KafkaError
from barnabas.protocol.messages import share_state as messages
from barnabas.queues.state_records import from_batches
from barnabas.queues.state_shard import StateWrite
from barnabas.queues.stored_state import ShareKey, StoredState

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.dispatch import Request

ASKED_AT_ONCE = 50  # partitions in a turn of the loop; each that is written takes about 0.2 ms

Ask = Callable[[ShareKey, Any, Callable[[Any], None]], None]
Answer = Callable[[int, Any], Any]


def initialize_state(
    broker: Broker, request: Request, message: messages.InitializeShareGroupStateRequest
) -> None:
    def ask(key: ShareKey, wanted: Any, done: Callable[[Any], None]) -> None:
        broker.coordinators.shares.initialize(key, wanted.state_epoch, wanted.start_offset, done)

    _each(
        broker,
        request,
        message,
        ask,
        lambda index, outcome: _plain(messages.InitializeShareGroupStatePartitionResult, index, outcome),
        messages.InitializeStateResult,
        messages.InitializeShareGroupStateResponse,
    )


def read_state(broker: Broker, request: Request, message: messages.ReadShareGroupStateRequest) -> None:
    def ask(key: ShareKey, wanted: Any, done: Callable[[Any], None]) -> None:
        broker.coordinators.shares.read(key, wanted.leader_epoch, done)

    def answer(index: int, outcome: StoredState | KafkaError) -> Any:
        if isinstance(outcome, KafkaError):
            return _plain(messages.ReadShareGroupStatePartitionResult, index, outcome)
        return messages.ReadShareGroupStatePartitionResult(
            partition=index,
            state_epoch=outcome.state_epoch,
            start_offset=outcome.start_offset,
            state_batches=[messages.StateBatch(*batch) for batch in outcome.batches],
        )

    _each(
        broker, request, message, ask, answer, messages.ReadStateResult, messages.ReadShareGroupStateResponse
    )


def write_state(broker: Broker, request: Request, message: messages.WriteShareGroupStateRequest) -> None:
    def ask(key: ShareKey, wanted: Any, done: Callable[[Any], None]) -> None:
        write = StateWrite(
            wanted.state_epoch,
            wanted.leader_epoch,
            wanted.start_offset,
            wanted.delivery_complete_count,
            from_batches(wanted.state_batches),
        )
        broker.coordinators.shares.write(key, write, done)

    _each(
        broker,
        request,
        message,
        ask,
        lambda index, outcome: _plain(messages.WriteShareGroupStatePartitionResult, index, outcome),
        messages.WriteStateResult,
        messages.WriteShareGroupStateResponse,
    )


def delete_state(broker: Broker, request: Request, message: messages.DeleteShareGroupStateRequest) -> None:
    def ask(key: ShareKey, wanted: Any, done: Callable[[Any], None]) -> None:
        broker.coordinators.shares.delete(key, done)

    _each(
        broker,
        request,
        message,
        ask,
        lambda index, outcome: _plain(messages.DeleteShareGroupStatePartitionResult, index, outcome),
        messages.DeleteStateResult,
        messages.DeleteShareGroupStateResponse,
    )


def read_summary(
    broker: Broker, request: Request, message: messages.ReadShareGroupStateSummaryRequest
) -> None:
    def ask(key: ShareKey, wanted: Any, done: Callable[[Any], None]) -> None:
        broker.coordinators.shares.summary(key, done)

    def answer(index: int, outcome: StoredState | KafkaError) -> Any:
        if isinstance(outcome, KafkaError):
            return _plain(messages.ReadShareGroupStateSummaryPartitionResult, index, outcome)
        return messages.ReadShareGroupStateSummaryPartitionResult(
            partition=index,
            state_epoch=outcome.state_epoch,
            leader_epoch=outcome.leader_epoch,
            start_offset=outcome.start_offset,
            delivery_complete_count=outcome.finished_count,
        )

    _each(
        broker,
        request,
        message,
        ask,
        answer,
        messages.ReadStateSummaryResult,
        messages.ReadShareGroupStateSummaryResponse,
    )


def _plain(result: Any, index: int, outcome: KafkaError | None) -> Any:
    if outcome is None:
        return result(partition=index)
    return result(partition=index, error_code=outcome.code, error_message=outcome.message)


def _each(
    broker: Broker,
    request: Request,
    message: Any,
    ask: Ask,
    answer: Answer,
    result_class: Any,
    response_class: Any,
) -> None:
    """Ask for each partition; respond when all have answered. Without a group there is nothing to say, as in Kafka.

    A request may name tens of thousands of partitions: some are asked for in each turn of the loop.
    """
    response = response_class(results=[])
    missing = 1  # ourselves: some are answered at once

    def settle() -> None:
        nonlocal missing
        missing -= 1
        if not missing:
            request.respond(response)

    def settled(result: Any, index: int, outcome: Any) -> None:
        result.partitions.append(answer(index, outcome))
        settle()

    def asking() -> Iterator[None]:
        for topic in message.topics if message.group_id else ():
            result = result_class(topic_id=topic.topic_id, partitions=[])
            response.results.append(result)
            for wanted in topic.partitions:
                nonlocal missing
                missing += 1
                key = ShareKey(message.group_id, topic.topic_id, wanted.partition)
                ask(key, wanted, partial(settled, result, key.partition))
                yield

    def go_on(left: Iterator[None]) -> None:
        if sum(1 for _ in islice(left, ASKED_AT_ONCE)) == ASKED_AT_ONCE:
            broker.call_soon(go_on, left)
        else:
            settle()

    go_on(asking())
