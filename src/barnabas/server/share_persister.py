"""Storing the state of share partitions with the share coordinator, wherever that is.

On this broker a call is enough; another broker is asked through `Peers`. What may pass by itself (the coordinator
moves, or loads) is tried again a few times, as in Kafka's persister.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from barnabas.cluster.names import SHARE_GROUP_STATE
from barnabas.errors import ErrorCode, KafkaError
from barnabas.protocol.messages import share_state as messages
from barnabas.queues.state_records import from_batches
from barnabas.queues.state_shard import StateWrite
from barnabas.queues.stored_state import ShareKey, StoredState

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

MOST_ATTEMPTS = 5
FIRST_PAUSE_S = 0.1
NO_LEADER = -1

_PASSING = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)

Done = Callable[[Any], None]


class Operation:
    """One thing to ask of the coordinator: as a call, and as a request whose answer is read back."""

    __slots__ = ("locally", "read", "request")

    def __init__(
        self, locally: Callable[[Done], None], request: Callable[[], Any], read: Callable[[Any], Any]
    ) -> None:
        self.locally = locally
        self.request = request
        self.read = read


class SharePersister:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tasks: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    def write(self, key: ShareKey, wanted: StateWrite, done: Done) -> None:
        """`done` gets None, or the KafkaError that is left after the last attempt."""
        coordinator = self._broker.coordinators.shares
        self._run(
            key,
            Operation(
                lambda answer: coordinator.write(key, wanted, answer),
                lambda: _write_request(key, wanted),
                lambda result: None,
            ),
            done,
        )

    def read(
        self, key: ShareKey, leader_epoch: int, done: Callable[[StoredState | KafkaError], None]
    ) -> None:
        coordinator = self._broker.coordinators.shares
        data = messages.ReadShareGroupStatePartitionData(key.partition, leader_epoch)
        self._run(
            key,
            Operation(
                lambda answer: coordinator.read(key, leader_epoch, answer),
                lambda: messages.ReadShareGroupStateRequest(
                    key.group_id, [messages.ReadStateData(key.topic_id, [data])]
                ),
                _read_state,
            ),
            done,
        )

    def summary(self, key: ShareKey, done: Callable[[StoredState | KafkaError], None]) -> None:
        coordinator = self._broker.coordinators.shares
        data = messages.ReadShareGroupStateSummaryPartitionData(key.partition, -1)
        self._run(
            key,
            Operation(
                lambda answer: coordinator.summary(key, answer),
                lambda: messages.ReadShareGroupStateSummaryRequest(
                    key.group_id, [messages.ReadStateSummaryData(key.topic_id, [data])]
                ),
                _read_summary,
            ),
            done,
        )

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int, done: Done) -> None:
        coordinator = self._broker.coordinators.shares
        data = messages.InitializeShareGroupStatePartitionData(key.partition, state_epoch, start_offset)
        self._run(
            key,
            Operation(
                lambda answer: coordinator.initialize(key, state_epoch, start_offset, answer),
                lambda: messages.InitializeShareGroupStateRequest(
                    key.group_id, [messages.InitializeStateData(key.topic_id, [data])]
                ),
                lambda result: None,
            ),
            done,
        )

    def delete(self, key: ShareKey, done: Done) -> None:
        coordinator = self._broker.coordinators.shares
        data = messages.DeleteShareGroupStatePartitionData(key.partition)
        self._run(
            key,
            Operation(
                lambda answer: coordinator.delete(key, answer),
                lambda: messages.DeleteShareGroupStateRequest(
                    key.group_id, [messages.DeleteStateData(key.topic_id, [data])]
                ),
                lambda result: None,
            ),
            done,
        )

    # -- attempts -------------------------------------------------------------------------------------

    def _run(self, key: ShareKey, operation: Operation, done: Done, attempt: int = 1) -> None:
        def answered(outcome: Any) -> None:
            passes = isinstance(outcome, KafkaError) and outcome.code in _PASSING
            if passes and attempt < MOST_ATTEMPTS:
                pause = FIRST_PAUSE_S * 2 ** (attempt - 1)
                self._broker.timers.call_later(pause, lambda: self._run(key, operation, done, attempt + 1))
            else:
                done(outcome)

        if SHARE_GROUP_STATE not in self._broker.image.topics:
            self._start(self._create_topic(answered))
            return
        leader = self._broker.coordinators.shares.leader_of(key)
        if leader == self._broker.node_id:
            operation.locally(answered)
        elif leader == NO_LEADER:
            answered(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{SHARE_GROUP_STATE} has no leader"))
        else:
            self._start(self._ask(leader, operation, answered))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _create_topic(self, answered: Done) -> None:
        """The topic is there for the next attempt, or the reason why it is not."""
        try:
            await self._broker.coordinators.create_topic(SHARE_GROUP_STATE)
        except KafkaError as error:
            answered(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message))
        else:
            answered(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the topic has just been created"))

    async def _ask(self, leader: int, operation: Operation, answered: Done) -> None:
        try:
            response = await self._broker.peers.send(leader, operation.request())
        except KafkaError as error:
            answered(error)
            return
        result = response.results[0].partitions[0]
        if result.error_code:
            answered(KafkaError(ErrorCode(result.error_code), result.error_message or ""))
        else:
            answered(operation.read(result))


def _write_request(key: ShareKey, wanted: StateWrite) -> messages.WriteShareGroupStateRequest:
    data = messages.WriteShareGroupStatePartitionData(
        key.partition,
        wanted.state_epoch,
        wanted.leader_epoch,
        wanted.start_offset,
        wanted.finished_count,
        [messages.StateBatch(*batch) for batch in wanted.batches],
    )
    return messages.WriteShareGroupStateRequest(key.group_id, [messages.WriteStateData(key.topic_id, [data])])


def _read_state(result: messages.ReadShareGroupStatePartitionResult) -> StoredState:
    return StoredState(
        state_epoch=result.state_epoch,
        start_offset=result.start_offset,
        batches=from_batches(result.state_batches),  # type: ignore[arg-type]
    )


def _read_summary(result: messages.ReadShareGroupStateSummaryPartitionResult) -> StoredState:
    return StoredState(
        state_epoch=result.state_epoch,
        leader_epoch=result.leader_epoch,
        start_offset=result.start_offset,
        finished_count=result.delivery_complete_count,
    )
