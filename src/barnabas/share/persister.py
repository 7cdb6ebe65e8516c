"""The state of share partitions, read from and written to the share coordinator (Kafka's
DefaultStatePersister).

The coordinator of a share partition may be this broker or another; `coordination/channel` sends the request,
and
retries while the coordinator moves or loads.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.coordination import NO_LEADER, A, Channel, CoordinatorRequest, Done, Retry
from barnabas.protocol.internal_topics import SHARE_GROUP_STATE, SharePartitionKey
from barnabas.protocol.messages import share_state as messages
from barnabas.protocol.schema import Message
from barnabas.share.coordinator import ShareCoordinator
from barnabas.share.state_shard import StateWrite
from barnabas.share.stored_state import StoredState, from_batches

RETRY = Retry(first_pause=0.1, growth=2.0, attempts=5)

CreateTopic = Callable[[], Awaitable[None]]
"""Creates `__share_group_state`."""


class SharePersister:
    """Callbacks get the result, or the KafkaError of the last attempt."""

    def __init__(self, channel: Channel, coordinator: ShareCoordinator, create_topic: CreateTopic) -> None:
        self._channel = channel
        self._coordinator = coordinator
        self._create_topic = create_topic

    def write(self, key: SharePartitionKey, state_write: StateWrite, done: Done[None]) -> None:
        self._ask(_Write(key, state_write), done)

    def read(self, key: SharePartitionKey, leader_epoch: int, done: Done[StoredState]) -> None:
        self._ask(_Read(key, leader_epoch), done)

    def summary(self, key: SharePartitionKey, done: Done[StoredState]) -> None:
        self._ask(_Summary(key), done)

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, done: Done[None]
    ) -> None:
        self._ask(_Initialize(key, state_epoch, start_offset), done)

    def delete(self, key: SharePartitionKey, done: Done[None]) -> None:
        self._ask(_Delete(key), done)

    def _ask(self, question: _StateQuestion[A], done: Done[A]) -> None:
        question.coordinator = self._coordinator
        question.create_topic = self._create_topic
        self._channel.ask(question, done, RETRY)


class _StateQuestion(CoordinatorRequest[A]):
    """A request about one share partition to the coordinator of its state."""

    coordinator: ShareCoordinator
    create_topic: CreateTopic

    def __init__(self, key: SharePartitionKey) -> None:
        self.key = key

    def missing(self) -> CreateTopic | None:
        return None if self.coordinator.has_topic else self.create_topic

    def leader(self) -> int:
        leader = self.coordinator.leader_of(self.key)
        if leader == NO_LEADER:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{SHARE_GROUP_STATE} has no leader")
        return leader

    def read(self, response: Any) -> A:
        result = response.results[0].partitions[0]
        if result.error_code:
            raise KafkaError(ErrorCode(result.error_code), result.error_message or "")
        return self.read_result(result)

    @abstractmethod
    def read_result(self, result: Any) -> A:
        """Extract the result of the partition from a successful response."""


class _WithoutResult(_StateQuestion[None]):
    def read_result(self, result: Any) -> None:
        return None


class _Write(_WithoutResult):
    def __init__(self, key: SharePartitionKey, state_write: StateWrite) -> None:
        super().__init__(key)
        self._wanted = state_write

    def handle_locally(self, done: Done[None]) -> None:
        self.coordinator.write(self.key, self._wanted, done)

    def request(self) -> Message:
        key, state_write = self.key, self._wanted
        data = messages.WriteShareGroupStatePartitionData(
            key.partition,
            state_write.state_epoch,
            state_write.leader_epoch,
            state_write.start_offset,
            state_write.finished_count,
            [messages.StateBatch(*batch) for batch in state_write.batches],
        )
        return messages.WriteShareGroupStateRequest(
            key.group_id, [messages.WriteStateData(key.topic_id, [data])]
        )


class _Initialize(_WithoutResult):
    def __init__(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        super().__init__(key)
        self._state_epoch = state_epoch
        self._start_offset = start_offset

    def handle_locally(self, done: Done[None]) -> None:
        self.coordinator.initialize(self.key, self._state_epoch, self._start_offset, done)

    def request(self) -> Message:
        data = messages.InitializeShareGroupStatePartitionData(
            self.key.partition, self._state_epoch, self._start_offset
        )
        return messages.InitializeShareGroupStateRequest(
            self.key.group_id, [messages.InitializeStateData(self.key.topic_id, [data])]
        )


class _Delete(_WithoutResult):
    def handle_locally(self, done: Done[None]) -> None:
        self.coordinator.delete(self.key, done)

    def request(self) -> Message:
        data = messages.DeleteShareGroupStatePartitionData(self.key.partition)
        return messages.DeleteShareGroupStateRequest(
            self.key.group_id, [messages.DeleteStateData(self.key.topic_id, [data])]
        )


class _Read(_StateQuestion[StoredState]):
    def __init__(self, key: SharePartitionKey, leader_epoch: int) -> None:
        super().__init__(key)
        self._leader_epoch = leader_epoch

    def handle_locally(self, done: Done[StoredState]) -> None:
        self.coordinator.read(self.key, self._leader_epoch, done)

    def request(self) -> Message:
        data = messages.ReadShareGroupStatePartitionData(self.key.partition, self._leader_epoch)
        return messages.ReadShareGroupStateRequest(
            self.key.group_id, [messages.ReadStateData(self.key.topic_id, [data])]
        )

    def read_result(self, result: messages.ReadShareGroupStatePartitionResult) -> StoredState:
        return StoredState(
            state_epoch=result.state_epoch,
            start_offset=result.start_offset,
            batches=from_batches(result.state_batches),  # type: ignore[arg-type]
        )


class _Summary(_StateQuestion[StoredState]):
    def handle_locally(self, done: Done[StoredState]) -> None:
        self.coordinator.summary(self.key, done)

    def request(self) -> Message:
        data = messages.ReadShareGroupStateSummaryPartitionData(self.key.partition, -1)
        return messages.ReadShareGroupStateSummaryRequest(
            self.key.group_id, [messages.ReadStateSummaryData(self.key.topic_id, [data])]
        )

    def read_result(self, result: messages.ReadShareGroupStateSummaryPartitionResult) -> StoredState:
        return StoredState(
            state_epoch=result.state_epoch,
            leader_epoch=result.leader_epoch,
            start_offset=result.start_offset,
            finished_count=result.delivery_complete_count,
        )
