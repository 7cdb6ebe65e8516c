"""A streams group coordinator on a log in memory, with topics managed by tests."""

from __future__ import annotations

from typing import Any

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.groups.group import ClientInfo, Committer
from barnabas.groups.streams.configured import InternalTopic
from barnabas.groups.streams.describe import task_ids
from barnabas.groups.streams.group import StreamsGroup
from barnabas.groups.streams.heartbeats import HeartbeatResult
from barnabas.groups.streams.sizing import StreamsStatus
from barnabas.groups.streams.tasks import NOTHING, StreamsTasks, tasks_of
from barnabas.protocol.messages.streams import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from tests.groups.consumer.simulation import ConsumerSimulation, topic_id
from tests.groups.simulation import GROUP, Answer
from tests.support.builders.streams import word_count

SESSION_MS = 45_000
REBALANCE_MS = 60_000
COUNTING_TOPICS = {"lines": 3, "words": 3, "counts": 3}


class StreamsSimulation(ConsumerSimulation):
    """Without delays, unless a test sets some in `overrides`."""

    def __init__(self, topics: dict[str, int] | None = None, **settings: Any) -> None:
        super().__init__(COUNTING_TOPICS if topics is None else topics, **settings)
        self.overrides |= {"streams.assignment.interval.ms": "0", "streams.initial.rebalance.delay.ms": "0"}
        self.missing: tuple[InternalTopic, ...] = ()
        self.version = 0

    def tell(
        self, request: StreamsGroupHeartbeatRequest, client_id: str = "client"
    ) -> StreamsGroupHeartbeatResponse:
        answer = Answer()

        def done(outcome: HeartbeatResult | KafkaError) -> None:
            if isinstance(outcome, KafkaError):
                answer(StreamsGroupHeartbeatResponse(error_code=outcome.code, error_message=outcome.message))
                return
            response, self.missing = outcome
            answer(response)

        client = ClientInfo(client_id, "/127.0.0.1")
        self.coordinator.streams_heartbeat(request, client, done, self.version)
        self.machine.run_soon()
        response: StreamsGroupHeartbeatResponse = answer.response
        return response

    def arrive(self, member: str, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """A member joins, by default in a new process."""
        known = {
            "rebalance_timeout_ms": REBALANCE_MS,
            "topology": word_count(),
            "process_id": f"process-{member}",
            **owned(NOTHING),
        }
        return self.tell(StreamsGroupHeartbeatRequest(GROUP, member, **{**known, **fields}))

    def beat(
        self, member: str, epoch: int, has: StreamsTasks | None = None, **fields: Any
    ) -> StreamsGroupHeartbeatResponse:
        lists = {} if has is None else owned(has)
        return self.tell(StreamsGroupHeartbeatRequest(GROUP, member, epoch, **lists, **fields))

    def depart(self, member: str, **fields: Any) -> StreamsGroupHeartbeatResponse:
        return self.beat(member, -1, **fields)

    def commit_of(
        self, member: str, epoch: int, topic: str, partition: int = 0, *, in_transaction: bool = False
    ) -> ErrorCode:
        """Result of a commit."""
        committer = Committer(member, None, epoch, 9, in_transaction)
        try:
            self.shard.check_commit(GROUP, committer)(TopicPartition(topic, partition), topic_id(topic))
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    # -- looking ------------------------------------------------------------------------------------

    @property
    def streams_group(self) -> StreamsGroup:
        return self.shard.streams.find(GROUP)

    def check_that_replay_equals_memory(self) -> None:
        live, replayed = self.shard, self.replayed()
        assert seen_in(replayed.groups.get(GROUP)) == seen_in(live.groups.get(GROUP))


def owned(tasks: StreamsTasks) -> dict[str, Any]:
    return {
        "active_tasks": task_ids(tasks.active),
        "standby_tasks": task_ids(tasks.standby),
        "warmup_tasks": task_ids(tasks.warmup),
    }


def assigned(response: StreamsGroupHeartbeatResponse) -> StreamsTasks | None:
    """Tasks in a response, if any."""
    if response.active_tasks is None:
        return None
    assert response.standby_tasks is not None
    assert response.warmup_tasks is not None
    return StreamsTasks(
        tasks_of(response.active_tasks), tasks_of(response.standby_tasks), tasks_of(response.warmup_tasks)
    )


def statuses(response: StreamsGroupHeartbeatResponse) -> list[StreamsStatus]:
    assert not response.error_code, response
    return [StreamsStatus(status.status_code) for status in response.status or []]


def seen_in(group: object) -> dict[str, Any] | None:
    """Replayed state of a streams group."""
    if not isinstance(group, StreamsGroup):
        return None
    return {
        "epoch": (group.epoch, group.metadata_hash, group.validated_epoch),
        "assignment": (group.assignment_epoch, group.assigned_at_ms, group.targets),
        "configs": group.assignment_configs,
        "members": group.members,
        "topology": group.topology,
        "description": group.description,
        "owners": vars(group.owners),
    }
