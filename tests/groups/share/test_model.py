"""Random sequences of joins, heartbeats, leaves, silence, new topics and coordinator restarts.

Whatever happened: once everybody who lives has sent a few heartbeats, every partition has a reader and every reader a
partition; and a coordinator that reads the log knows what the one before it knew.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.groups.group import ClientInfo
from barnabas.groups.share.group import ShareGroup
from barnabas.groups.share.heartbeats import ShareHeartbeatResult
from barnabas.groups.share.state_partitions import Partitions
from barnabas.protocol.messages.share import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tests.groups.consumer.simulation import ConsumerSimulation
from tests.groups.simulation import GROUP, Answer

NAMES = st.sampled_from(["ann", "bob", "cid", "dan"])
TOPICS = ["orders", "bills"]
SESSION_MS, INTERVAL_MS = 45_000, 1000


class ShareSimulation(ConsumerSimulation):
    def __init__(self) -> None:
        super().__init__({"orders": 2}, share_initialize_retry_ms=30_000)
        self.created: set[tuple[bytes, int]] = set()

    def beat(self, member: str, epoch: int, topics: list[str] | None) -> ShareGroupHeartbeatResponse:
        answer = Answer()
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id=member, member_epoch=epoch, subscribed_topic_names=topics
        )
        self.coordinator.share_heartbeat(request, ClientInfo("client", "/127.0.0.1"), answer)
        self.machine.run_soon()
        outcome: ShareHeartbeatResult | KafkaError = answer.response
        if isinstance(outcome, KafkaError):
            return ShareGroupHeartbeatResponse(error_code=outcome.code, error_message=outcome.message)
        if outcome.missing:
            self._create(outcome.missing)
        return outcome.response

    def _create(self, missing: Partitions) -> None:
        for topic, (_, partitions) in missing.items():
            for index in partitions:
                assert (topic, index) not in self.created, "state is created once: it would begin anew"
                self.created.add((topic, index))
        self.coordinator.write(GROUP, lambda shard: shard.share.state_created(GROUP, missing))

    @property
    def group(self) -> ShareGroup | None:  # type: ignore[override]
        ((_, shard),) = self.coordinator.runtime.shards()
        group = shard.groups.get(GROUP)
        return group if isinstance(group, ShareGroup) else None


class ShareMembers(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.simulation = ShareSimulation()
        self.epochs: dict[str, int] = {}
        self.topics: dict[str, list[str]] = {}

    @rule(name=NAMES, topics=st.lists(st.sampled_from(TOPICS), min_size=1, unique=True))
    def join(self, name: str, topics: list[str]) -> None:
        response = self.simulation.beat(name, 0, topics)
        assert not response.error_code
        self.epochs[name], self.topics[name] = response.member_epoch, topics

    @rule(name=NAMES)
    def beat(self, name: str) -> None:
        if name not in self.epochs:
            return
        response = self.simulation.beat(name, self.epochs[name], None)
        if response.error_code:
            assert response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)
            del self.epochs[name]
        else:
            assert response.member_epoch >= self.epochs[name]
            self.epochs[name] = response.member_epoch

    @rule(name=NAMES, ahead=st.integers(1, 3))
    def lie_about_the_epoch(self, name: str, ahead: int) -> None:
        group = self.simulation.group
        if group is None or name not in group.members:
            return
        response = self.simulation.beat(name, group.members[name].member_epoch + ahead, None)
        assert response.error_code == ErrorCode.FENCED_MEMBER_EPOCH

    @rule(name=NAMES)
    def leave(self, name: str) -> None:
        self.simulation.beat(name, -1, None)
        self.epochs.pop(name, None)

    @rule(milliseconds=st.sampled_from([100, INTERVAL_MS, SESSION_MS + 1]))
    def time_passes(self, milliseconds: int) -> None:
        self.simulation.clock.advance(milliseconds)
        self.simulation.machine.run_soon()

    @rule(name=st.sampled_from(TOPICS), partitions=st.integers(1, 5))
    def grow_topic(self, name: str, partitions: int) -> None:
        known = self.simulation.image.topics.get(name)
        if known is None or len(known.partitions) < partitions:
            self.simulation.create(name, partitions)

    @rule()
    def restart(self) -> None:
        before = self._facts()
        self.simulation.restart()
        assert self._facts() == before

    def _facts(self) -> Any:
        group = self.simulation.group
        if group is None:
            return None
        return group.epoch, group.assignment_epoch, group.members, group.targets, group.states

    @rule()
    def settle(self) -> None:
        """All known members continue; then the group must be consistent."""
        for _ in range(3):
            self.simulation.clock.advance(INTERVAL_MS)
            for name in list(self.epochs):
                self.beat(name)
        group = self.simulation.group
        if group is None or not self.epochs or group.members.keys() != self.epochs.keys():
            return
        wanted = {name for topics in (self.topics[member] for member in group.members) for name in topics}
        for name, topic in self.simulation.image.topics.items():
            readers = {
                index
                for member in group.members.values()
                for index in member.assigned.get(topic.topic_id, ())
            }
            assert readers == (set(range(len(topic.partitions))) if name in wanted else set())
        for member in group.members.values():
            exists = any(name in self.simulation.image.topics for name in member.subscribed_topic_names)
            assert bool(member.assigned) == exists

    @invariant()
    def nobody_reads_what_has_no_state(self) -> None:
        group = self.simulation.group if hasattr(self, "simulation") else None
        for member in group.members.values() if group is not None else ():
            for topic, indexes in member.assigned.items():
                assert all((topic, index) in self.simulation.created for index in indexes)


ShareMembers.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestShareMembers = ShareMembers.TestCase
