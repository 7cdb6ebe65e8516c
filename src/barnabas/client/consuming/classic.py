"""Member of a classic group: eager rebalancing with JoinGroup and SyncGroup; the leader assigns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from barnabas.client.cluster import raise_for
from barnabas.client.consuming.membership import FORGOTTEN, REBALANCE_SECONDS, GroupMembership
from barnabas.client.errors import error_code, is_retriable
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.coordinator_records import decode_versioned, encode_versioned
from barnabas.protocol.messages.consumer import (
    CONSUMER_PROTOCOL,
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from barnabas.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

# -- Client-side assignors: Kafka's range and round robin. Pure functions ------------------------------

Subscriptions = Mapping[str, Sequence[str]]
"""The topics of each member."""

Counts = Mapping[str, int]
"""The partitions of each topic."""

Assignment = dict[str, list[TopicPartition]]


def assign_ranges(subscriptions: Subscriptions, counts: Counts) -> Assignment:
    """Assign contiguous partitions of each topic; the first members get the remainder."""
    found: Assignment = {member: [] for member in subscriptions}
    for topic in sorted(counts):
        members = sorted(member for member, topics in subscriptions.items() if topic in topics)
        if not members:
            continue
        each, over = divmod(counts[topic], len(members))
        first = 0
        for position, member in enumerate(members):
            until = first + each + (position < over)
            found[member] += [TopicPartition(topic, index) for index in range(first, until)]
            first = until
    return found


def assign_in_turn(subscriptions: Subscriptions, counts: Counts) -> Assignment:
    """Assign each partition to the next member subscribed to its topic."""
    found: Assignment = {member: [] for member in subscriptions}
    members = sorted(subscriptions)
    turn = 0
    for tp in (TopicPartition(topic, index) for topic in sorted(counts) for index in range(counts[topic])):
        for _ in members:
            member = members[turn % len(members)]
            turn += 1
            if tp.topic in subscriptions[member]:
                found[member].append(tp)
                break
    return found


ASSIGNORS: dict[str, Callable[[Subscriptions, Counts], Assignment]] = {
    "range": assign_ranges,  # what Java's and librdkafka's consumers offer first
    "roundrobin": assign_in_turn,  # the only one of aiokafka's
}


SESSION_SECONDS = 45.0  # Kafka's default
HEARTBEAT_SECONDS = 3.0
EMBEDDED_VERSION = 1


class ClassicGroupMembership(GroupMembership):
    _stable = False

    async def join(self) -> None:
        """Join and sync; repeat while the group rebalances."""
        self._interval = HEARTBEAT_SECONDS
        await self.client.topics(self.topics)
        while not self._stable:
            await self.client.retry(self._attempt, self.topics)

    async def settle(self, owned: frozenset[TopicPartition]) -> None:
        if not self._stable:
            await self.join()

    async def _attempt(self) -> None:
        try:
            joined = await self._join_group()
            await self._sync_group(joined)
        except KafkaError as error:
            self.forget_coordinator()
            if error.code == ErrorCode.MEMBER_ID_REQUIRED or error.code == ErrorCode.REBALANCE_IN_PROGRESS:
                return  # at once again
            if error.code not in FORGOTTEN:
                raise
            self.member_id = ""

    async def _join_group(self) -> JoinGroupResponse:
        wanted = encode_versioned(ConsumerProtocolSubscription(topics=self.topics), EMBEDDED_VERSION)
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=int(SESSION_SECONDS * 1000),
            rebalance_timeout_ms=int(REBALANCE_SECONDS * 1000),
            member_id=self.member_id,
            protocol_type=CONSUMER_PROTOCOL,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=wanted) for name in ASSIGNORS],
        )
        response: JoinGroupResponse = await self.send(
            request, REBALANCE_SECONDS + self.client.request_timeout
        )
        self.member_id = response.member_id or self.member_id
        raise_for(response.error_code, self._explained(response.error_code))
        self.epoch = response.generation_id
        return response

    def _explained(self, code: int) -> str:
        if code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            known = " or ".join(ASSIGNORS)
            return f"no assignor in common with the members of {self.group}: they must support {known}"
        return self.group

    async def _sync_group(self, joined: JoinGroupResponse) -> None:
        leads = joined.leader == self.member_id and not joined.skip_assignment
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.epoch,
            member_id=self.member_id,
            protocol_type=CONSUMER_PROTOCOL,
            protocol_name=joined.protocol_name,
            assignments=await self._assign(joined) if leads else [],
        )
        response = await self.send(request, REBALANCE_SECONDS + self.client.request_timeout)
        raise_for(response.error_code, self.group)
        found = decode_versioned(ConsumerProtocolAssignment, response.assignment)
        self.partitions = frozenset(
            TopicPartition(topic.topic, index)
            for topic in found.assigned_partitions
            for index in topic.partitions
        )
        self._stable = True
        self.changed.set()

    async def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        wanted = {
            member.member_id: decode_versioned(ConsumerProtocolSubscription, member.metadata).topics
            for member in joined.members
        }
        names = sorted({name for topics in wanted.values() for name in topics})
        found = (await self.client.refresh(names)).topics
        counts = {name: len(topic.partitions) for name, topic in found.items() if not topic.error}
        assigned = ASSIGNORS[joined.protocol_name or ""](wanted, counts)
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=_encoded(partitions))
            for member, partitions in assigned.items()
        ]

    async def _beat(self) -> None:
        if not self._stable:
            return  # the caller is about to join
        request = HeartbeatRequest(group_id=self.group, generation_id=self.epoch, member_id=self.member_id)
        code = error_code((await self.send(request)).error_code)
        if code in FORGOTTEN or code == ErrorCode.REBALANCE_IN_PROGRESS:
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self._stable = False
            self.lose_all()
        elif code:
            error = KafkaError(code, self.group)
            self.forget_coordinator()
            if not is_retriable(error):
                raise error

    async def _say_goodbye(self) -> None:
        members = [MemberIdentity(member_id=self.member_id)]
        await self.send(LeaveGroupRequest(group_id=self.group, members=members))


def _encoded(partitions: list[TopicPartition]) -> bytes:
    topics: dict[str, ConsumerProtocolAssignmentTopicPartition] = {}
    for name, index in partitions:
        topic = topics.setdefault(name, ConsumerProtocolAssignmentTopicPartition(topic=name))
        topic.partitions.append(index)
    assignment = ConsumerProtocolAssignment(assigned_partitions=list(topics.values()))
    return encode_versioned(assignment, EMBEDDED_VERSION)
