"""Member of a classic group: JoinGroup and SyncGroup; the leader assigns.

With the assignor `cooperative-sticky` alone, a rebalance is incremental (KIP-429): members keep what they own, and join
again after they have revoked what the leader gives to others. With any other assignor they revoke everything first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from barnabas.client.cluster import raise_for
from barnabas.client.consuming.assignors import COOPERATIVE_STICKY, Assignment, assign
from barnabas.client.consuming.membership import FORGOTTEN, GroupMembership
from barnabas.client.errors import error_code, is_retriable
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.coordinator_records import decode_versioned, encode_versioned
from barnabas.protocol.messages.consumer import (
    CONSUMER_PROTOCOL,
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
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

EMBEDDED_VERSION = 1


class ClassicGroupMembership(GroupMembership):
    _stable = False
    _owned: frozenset[TopicPartition] = frozenset()

    @property
    def is_cooperative(self) -> bool:
        return self.settings.strategies == (COOPERATIVE_STICKY,)

    def subscribe(self, topics: Iterable[str]) -> None:
        super().subscribe(topics)
        self.request_rejoin()

    def request_rejoin(self) -> None:
        self._stable = False
        if not self.is_cooperative:
            self.lose_all()
        self.changed.set()

    async def join(self) -> None:
        """Join and sync; repeat while the group rebalances."""
        self._interval = self.settings.heartbeat_interval
        await self.client.topics(self.topics)
        while not self._stable:
            await self.client.retry(self._attempt, self.topics)

    async def settle(self, owned: frozenset[TopicPartition]) -> None:
        self._owned = owned if self.is_cooperative else frozenset()
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
            self._owned = frozenset()

    async def _join_group(self) -> JoinGroupResponse:
        wanted = encode_versioned(self._subscription(), EMBEDDED_VERSION)
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=int(self.settings.session_timeout * 1000),
            rebalance_timeout_ms=int(self.settings.rebalance_timeout * 1000),
            member_id=self.member_id,
            group_instance_id=self.settings.instance_id,
            protocol_type=CONSUMER_PROTOCOL,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=wanted) for name in self.settings.strategies
            ],
        )
        response: JoinGroupResponse = await self.send(request, self._join_timeout)
        self.member_id = response.member_id or self.member_id
        raise_for(response.error_code, self._explained(response.error_code))
        self.epoch = response.generation_id
        return response

    @property
    def _join_timeout(self) -> float:
        return self.settings.rebalance_timeout + self.client.request_timeout

    def _subscription(self) -> ConsumerProtocolSubscription:
        wanted = ConsumerProtocolSubscription(topics=self.topics)
        if self.is_cooperative and self._owned:
            wanted.owned_partitions = [
                ConsumerProtocolSubscriptionTopicPartition(name, indexes)
                for name, indexes in _by_topic(self._owned).items()
            ]
            wanted.user_data = self.epoch.to_bytes(4, "big", signed=True)  # the generation, as Java writes it
        return wanted

    def _explained(self, code: int) -> str:
        if code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            known = " or ".join(self.settings.strategies)
            return f"no assignor in common with the members of {self.group}: they must support {known}"
        return self.group

    async def _sync_group(self, joined: JoinGroupResponse) -> None:
        leads = joined.leader == self.member_id and not joined.skip_assignment
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.settings.instance_id,
            protocol_type=CONSUMER_PROTOCOL,
            protocol_name=joined.protocol_name,
            assignments=await self._assign(joined) if leads else [],
        )
        response = await self.send(request, self._join_timeout)
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
        found = {
            member.member_id: decode_versioned(ConsumerProtocolSubscription, member.metadata)
            for member in joined.members
        }
        wanted = {member: subscription.topics for member, subscription in found.items()}
        names = sorted({name for topics in wanted.values() for name in topics})
        known = (await self.client.refresh(names)).topics
        counts = {name: len(topic.partitions) for name, topic in known.items() if not topic.error}
        assigned = assign(joined.protocol_name or "", wanted, counts, _owned_of(found))
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=_encoded(partitions))
            for member, partitions in assigned.items()
        ]

    async def _beat(self) -> None:
        if not self._stable:
            return  # the caller is about to join
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.settings.instance_id,
        )
        code = error_code((await self.send(request)).error_code)
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.request_rejoin()
        elif code in FORGOTTEN:
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self._stable = False
            self.lose_all(forgotten=True)
        elif code:
            error = KafkaError(code, self.group)
            self.forget_coordinator()
            if not is_retriable(error):
                raise error

    async def _leave_group(self) -> None:
        if self.settings.instance_id is not None:
            return  # a static member keeps its partitions until the session timeout
        members = [MemberIdentity(member_id=self.member_id)]
        await self.send(LeaveGroupRequest(group_id=self.group, members=members))


def _owned_of(subscriptions: Mapping[str, ConsumerProtocolSubscription]) -> Assignment:
    """Partitions that members own. Of two that claim one, only a member of the newer generation is right."""
    claims: dict[TopicPartition, list[tuple[int, str]]] = defaultdict(list)
    for member, subscription in subscriptions.items():
        for topic in subscription.owned_partitions:
            for index in topic.partitions:
                claims[TopicPartition(topic.topic, index)].append((_generation(subscription), member))
    owned: Assignment = {member: [] for member in subscriptions}
    for tp, claimed in sorted(claims.items()):
        newest = max(generation for generation, _ in claimed)
        owners = [member for generation, member in claimed if generation == newest]
        if len(owners) == 1:
            owned[owners[0]].append(tp)
    return owned


def _generation(subscription: ConsumerProtocolSubscription) -> int:
    if subscription.generation_id >= 0 or not subscription.user_data:
        return subscription.generation_id
    return int.from_bytes(subscription.user_data[:4], "big", signed=True)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = defaultdict(list)
    for name, index in sorted(partitions):
        topics[name].append(index)
    return topics


def _encoded(partitions: list[TopicPartition]) -> bytes:
    topics = [
        ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=indexes)
        for name, indexes in _by_topic(partitions).items()
    ]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=topics), EMBEDDED_VERSION)
