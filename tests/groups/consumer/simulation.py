"""A consumer group coordinator on a log in memory, with topics managed by tests."""

from __future__ import annotations

from typing import Any

from barnabas.cluster.image import MetadataImage, PartitionState, TopicState
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition, Uuid
from barnabas.groups.consumer.group import ConsumerGroup
from barnabas.groups.coordinator import GroupCoordinator
from barnabas.groups.group import ClientInfo, Committer
from barnabas.groups.settings import GroupConfigs
from barnabas.groups.topics import ImageTopics
from barnabas.protocol.messages.consumer import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from tests.groups.consumer.talks import beat, joining
from tests.groups.simulation import BROKER_ID, GROUP, Answer, Simulation

SESSION_MS = 45_000
REBALANCE_MS = 60_000
Held = dict[Uuid, set[int]]


def topic_id(name: str, life: int = 0) -> Uuid:
    return name.encode().ljust(15, b"\0")[:15] + bytes([life])


class ConsumerSimulation(Simulation):
    def __init__(self, topics: dict[str, int] | None = None, **settings: Any) -> None:
        self.image = MetadataImage(offset=1)
        self.overrides: dict[str, str] = {"consumer.assignment.interval.ms": "0"}
        self.lives: dict[str, int] = {}
        super().__init__(**settings)
        for name, partitions in (topics or {}).items():
            self.create(name, partitions)

    def _start(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(
            self.settings,
            self.machine,
            lambda: 1,
            ImageTopics(lambda: self.image),
            GroupConfigs(lambda group_id: self.overrides),
        )
        coordinator.start()
        self.partition.apply(PartitionState((1,), (1,), BROKER_ID, self._epoch))
        coordinator.runtime.elected(self.partition)
        self.machine.run_soon()
        return coordinator

    # -- topics -------------------------------------------------------------------------------------

    def create(self, name: str, partitions: int) -> None:
        """Create a topic, or give it more partitions."""
        states = tuple(PartitionState((1,), (1,), 1) for _ in range(partitions))
        state = TopicState(name, topic_id(name, self.lives.get(name, 0)), states)
        self._use({**self.image.topics, name: state})
        self.coordinator.topics_changed([name], [])

    def remove_topic(self, name: str) -> None:
        self.lives[name] = self.lives.get(name, 0) + 1
        self._use({key: state for key, state in self.image.topics.items() if key != name})
        self.coordinator.topics_changed([], [name])

    def _use(self, topics: dict[str, TopicState]) -> None:
        self.image = MetadataImage(
            offset=self.image.offset + 1,
            topics=topics,
            topic_names_by_id={state.topic_id: name for name, state in topics.items()},
        )

    # -- requests -----------------------------------------------------------------------------------

    def say(
        self, request: ConsumerGroupHeartbeatRequest, client_id: str = "client"
    ) -> ConsumerGroupHeartbeatResponse:
        answer, client = Answer(), ClientInfo(client_id, "/127.0.0.1")
        self.coordinator.consumer_heartbeat(
            request,
            client,
            answer,
            lambda error: ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message),
        )
        self.machine.run_soon()
        response: ConsumerGroupHeartbeatResponse = answer.response
        return response

    def joins(self, member: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        return self.say(joining(GROUP, member, *topics, **fields))

    def beats(
        self, member: str, epoch: int, held: Held | None = None, **fields: Any
    ) -> ConsumerGroupHeartbeatResponse:
        return self.say(beat(GROUP, member, epoch, topic_partitions=reported(held), **fields))

    def commits(self, member: str, epoch: int, tp: TopicPartition, version: int = 9) -> ErrorCode:
        """Result of a commit."""
        try:
            check = self.shard.check_commit(GROUP, Committer(member, None, epoch, version))
            check(tp, topic_id(tp.topic))
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    # -- looking ------------------------------------------------------------------------------------

    @property
    def consumer_group(self) -> ConsumerGroup:
        group = self.shard.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def check_that_replay_equals_memory(self) -> None:
        live, replayed = self.shard, self.replayed()
        assert view(replayed.groups.get(GROUP)) == view(live.groups.get(GROUP))


def view(group: object) -> dict[str, Any] | None:
    """Replayed state of a consumer group."""
    if not isinstance(group, ConsumerGroup):
        return None
    return {
        "epoch": (group.epoch, group.metadata_hash),
        "assignment": (group.assignment_epoch, group.assigned_at_ms, group.targets),
        "members": group.members,
        "static": group.static_members,
        "patterns": dict(group.patterns),
        "resolved": group.resolved,
        "owners": group._owners,
        "subscribers": group.subscriptions,
    }


def reported(held: Held | None) -> list[ConsumerGroupHeartbeatTopicPartitions] | None:
    if held is None:
        return None
    return [
        ConsumerGroupHeartbeatTopicPartitions(topic_id=topic, partitions=sorted(indexes))
        for topic, indexes in held.items()
        if indexes
    ]


def told(response: ConsumerGroupHeartbeatResponse) -> Held | None:
    if response.assignment is None:
        return None
    return {one.topic_id: set(one.partitions) for one in response.assignment.topic_partitions}
