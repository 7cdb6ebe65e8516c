"""A group coordinator on a log in memory, with a manual clock, and clients that remember responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.cluster.image import PartitionState
from barnabas.common.clock import ManualClock
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.coordination.deadlines import Deadlines
from barnabas.coordination.loading import Loading
from barnabas.coordination.shard import CoordinatorResult
from barnabas.groups.classic.group import ClassicGroup, ClassicGroupState
from barnabas.groups.classic.member import JoinRequest
from barnabas.groups.coordinator import GroupCoordinator
from barnabas.groups.group import ClientInfo, Committer, GroupDeadline
from barnabas.groups.manager import ShardContext
from barnabas.groups.offsets import Committed, Offsets
from barnabas.groups.results import commit_error
from barnabas.groups.settings import GroupSettings
from barnabas.groups.shard import GroupShard
from barnabas.metrics.topics import TopicCounters
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS
from barnabas.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from barnabas.replication.partition import Partition
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.logs import TOPIC_ID, new_log
from tests.support.groups.conversations import join_request

GROUP = "group"
BROKER_ID = 1
SETTLED = (ClassicGroupState.STABLE, ClassicGroupState.EMPTY)


class Machine:
    """Replaces the broker. While `holding`, appends stay pending, as with a slow disk or follower."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.timers = clock
        self.durability: Any = self
        self.holding = False
        self.soon: list[Callable[[], None]] = []
        self._held: list[tuple[Partition, int, Callable[[ErrorCode], None]]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def run_soon(self) -> None:
        while self.soon:
            self.soon.pop(0)()

    def is_durable(self, partition: Partition, offset: int) -> bool:
        return not self.holding and partition.log.high_watermark >= offset

    def when(self, partition: Partition, offset: int, callback: Callable[[ErrorCode], None]) -> None:
        if self.holding:
            self._held.append((partition, offset, callback))
        else:
            partition.when_committed(offset, callback)

    def release(self) -> None:
        self.holding = False
        held, self._held = self._held, []
        for partition, offset, callback in held:
            partition.when_committed(offset, callback)


class Answer:
    """The response, if any."""

    def __init__(self) -> None:
        self.response: Any = None

    def __call__(self, response: Any) -> None:
        assert self.response is None, f"answered twice: {self.response!r}, then {response!r}"
        self.response = response

    @property
    def error(self) -> ErrorCode | None:
        return None if self.response is None else ErrorCode(self.response.error_code)


class Codes(list[ErrorCode]):
    """The outcomes of operations: NONE, or the code of an error."""

    def __call__(self, outcome: object) -> None:
        known = outcome.code if isinstance(outcome, KafkaError) else outcome
        self.append(known if isinstance(known, ErrorCode) else ErrorCode.NONE)


class Simulation:
    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.files = FaultyFileSystem()
        self.machine = Machine(self.clock)
        self.settings = GroupSettings(**settings)
        self.log = new_log("/data/__consumer_offsets-0", fs=self.files)
        self.partition = Partition(
            CONSUMER_OFFSETS, 0, TOPIC_ID, self.log, BROKER_ID, TopicCounters(CONSUMER_OFFSETS)
        )
        self._epoch = 0
        self.coordinator = self._start()

    def _start(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(self.settings, self.machine, lambda: 1)
        coordinator.start()
        self.partition.apply(PartitionState((1,), (1,), BROKER_ID, self._epoch))
        coordinator.runtime.elected(self.partition)
        self.machine.run_soon()
        return coordinator

    def restart(self) -> None:
        """Another coordinator loads the log."""
        self.coordinator.stop()
        self._epoch += 1
        self.coordinator = self._start()

    # -- requests -----------------------------------------------------------------------------------

    def join(self, request: JoinGroupRequest, version: int = 9, client_id: str = "client") -> Answer:
        answer = Answer()
        self.coordinator.join(JoinRequest(request, ClientInfo(client_id, "/127.0.0.1"), version, answer))
        return answer

    def join_both_steps(self, group: str = GROUP, **fields: Any) -> Answer:
        first = self.join(join_request(group, **fields))
        return self.join(join_request(group, first.response.member_id, **fields))

    def sync(
        self, member: str, generation: int, assignments: dict[str, bytes] | None = None, group: str = GROUP
    ) -> Answer:
        rows = [SyncGroupRequestAssignment(*pair) for pair in (assignments or {}).items()]
        request = SyncGroupRequest(group, generation, member, assignments=rows)
        answer = Answer()
        self.coordinator.sync(request, answer)
        return answer

    def heartbeat(self, member: str, generation: int, instance: str | None = None) -> ErrorCode:
        received = Codes()
        self.coordinator.heartbeat(HeartbeatRequest(GROUP, generation, member, instance), received)
        (error,) = received
        return error

    def leave(self, *members: str) -> list[ErrorCode]:
        outcomes: list[LeaveGroupResponse | KafkaError] = []
        self.coordinator.leave(GROUP, [MemberIdentity(member) for member in members], outcomes.append)
        (outcome,) = outcomes
        if isinstance(outcome, KafkaError):
            return [outcome.code for _ in members]
        return [ErrorCode(member.error_code) for member in outcome.members]

    def commit(
        self, offset: int, member: str = "", generation: int = -1, tp: TopicPartition | None = None
    ) -> ErrorCode | None:
        """The outcome; None while it is not safe."""
        received = Codes()
        committed = Committed(offset, -1, "", self.clock.now_ms())

        def handle(shard: GroupShard) -> CoordinatorResult[None]:
            shard.check_commit(GROUP, Committer(member, None, generation))
            return shard.commit(GROUP, [(tp or TopicPartition("orders", 0), committed)])

        self.coordinator.write(GROUP, handle, received, errors=commit_error, is_batched=True)
        self.machine.run_soon()
        return received[0] if received else None

    def delete(self, group: str = GROUP) -> ErrorCode:
        received = Codes()
        self.coordinator.write(group, lambda shard: shard.delete_group(group), received)
        return received[0]

    # -- looking ------------------------------------------------------------------------------------

    @property
    def shard(self) -> GroupShard:
        return next(shard for _, shard in self.coordinator.runtime.shards())

    @property
    def group(self) -> ClassicGroup:
        group = self.shard.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    def offsets(self, group: str = GROUP) -> Offsets:
        return self.shard.committed(group)

    def replayed(self) -> GroupShard:
        """State of a coordinator that loaded only the log."""
        deadlines: Deadlines[GroupDeadline] = Deadlines(self.clock, self.clock, lambda deadline: None)
        live = self.shard.context
        context = ShardContext(
            self.settings, self.clock, deadlines, live.topics, live.configs, lambda act: None
        )
        shard = GroupShard(context)
        loading = Loading(self.log, shard, self.clock)
        while not loading.run_slice():
            pass
        return shard

    def check_that_replay_equals_memory(self) -> None:
        live, replayed = self.shard, self.replayed()
        assert replayed.offsets.snapshot() == live.offsets.snapshot()
        for group_id, group in live.groups.items():
            assert isinstance(group, ClassicGroup)
            if group.written_generation == group.generation and group.state in SETTLED:
                again = replayed.groups[group_id]
                assert isinstance(again, ClassicGroup)
                assert written_view(again) == written_view(group)
        for group_id in replayed.groups:
            assert group_id in live.groups


def written_view(group: ClassicGroup) -> dict[str, Any]:
    """State of a group in the log."""
    members = {
        member.member_id: (
            member.instance_id,
            member.client,
            member.timeouts,
            member.metadata(group.protocol),
            member.assignment,
        )
        for member in group.members.values()
    }
    return {
        "state": group.state,
        "since": group.state_since_ms,
        "generation": group.generation,
        "protocol": (group.protocol_type, group.protocol),
        "leader": group.leader,
        "static": group.static_members,
        "subscribed": group.is_understood and set(group.topics),
        "members": members,
    }
