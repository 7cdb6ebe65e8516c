"""A classic group: its members, its generation and its rebalance state.

Theory of operation. The members of a *generation* divide the partitions among themselves. When a member joins, leaves
or changes its subscription, all members have to rejoin (PREPARING_REBALANCE). Once all have, or the largest
rebalance timeout has passed, a new generation begins: each JoinGroup is answered with the protocol that won
the vote, and one member, the *leader*, also receives the member list. The leader computes an assignment and sends it
with its SyncGroup (COMPLETING_REBALANCE); once it is stored, every SyncGroup is answered (STABLE).

The log stores the generation with its members and assignments when it becomes stable or empty. Pending joins
are not stored: after a coordinator restart the last stored generation is in force, and members with
newer state learn that from their next request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.coordination import CoordinatorRecord
from barnabas.groups.classic.member import ClassicGroupMember, ConsumedTopics, MemberProtocol, Timeouts
from barnabas.groups.group import UNKNOWN_MEMBER, Age, Group, GroupType, commit_time
from barnabas.groups.memory_budget import MEMBER_BYTES, Weight
from barnabas.groups.results import GroupResult, join_error, sync_reply
from barnabas.protocol.coordinator_records import encode_key
from barnabas.protocol.messages.consumer import CONSUMER_PROTOCOL
from barnabas.protocol.messages.groups import JoinGroupResponse, JoinGroupResponseMember, SyncGroupResponse
from barnabas.protocol.messages.records.group import GroupMetadataKey

NO_GENERATION = -1
MAX_REASONS = 20  # of one rebalance
MAX_REASON = 500  # characters; Kafka's own clients send at most 255


class ClassicGroupState(Enum):
    """The names are those that Kafka's tools show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: dict[ClassicGroupState, frozenset[ClassicGroupState]] = {
    # The first member joins; the last offset expires, or an administrator deletes the group.
    ClassicGroupState.EMPTY: frozenset({ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD}),
    # All members have joined, or the timeout has passed; no member is left.
    ClassicGroupState.PREPARING_REBALANCE: frozenset(
        {ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.EMPTY, ClassicGroupState.DEAD}
    ),
    # The leader's assignment is stored; a member joins, leaves, changes or does not sync in time.
    ClassicGroupState.COMPLETING_REBALANCE: frozenset(
        {ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD}
    ),
    # A member joins, leaves or changes.
    ClassicGroupState.STABLE: frozenset({ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD}),
    ClassicGroupState.DEAD: frozenset(),
}


class ClassicGroup(Group):
    group_type = GroupType.CLASSIC

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.state = ClassicGroupState.EMPTY
        self.previous_state = ClassicGroupState.EMPTY
        self.state_since_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_joins: set[str] = set()
        """Member ids that were handed out and not yet used to join (KIP-394)."""
        self.pending_syncs: set[str] = set()
        self.member_added = False
        """A member joined during the initial delay, which extends it."""
        self.topics = ConsumedTopics()
        """Updated with each join, so that a new generation does not parse the metadata of all members."""
        self.written_generation = NO_GENERATION
        """The last generation in the log; an empty one that could not be written is in force nevertheless."""
        self.reasons: list[str] = []
        """Reasons of the current rebalance; stored with the resulting generation."""
        self._supporters: Counter[str] = Counter()

    # -- states -------------------------------------------------------------------------------------

    def transition(self, to: ClassicGroupState, now_ms: int) -> None:
        if to not in TRANSITIONS[self.state]:
            raise RuntimeError(f"group {self.group_id} cannot become {to.value}: it is {self.state.value}")
        self.previous_state, self.state = self.state, to
        self.state_since_ms = now_ms

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicGroupState.EMPTY

    @property
    def is_awaited(self) -> bool:
        return bool(self.pending_joins)

    @property
    def can_rebalance(self) -> bool:
        return ClassicGroupState.PREPARING_REBALANCE in TRANSITIONS[self.state]

    @property
    def is_idle(self) -> bool:
        """True if no generation exists and no member is about to start one (committed offsets aside)."""
        return self.state is ClassicGroupState.EMPTY and self.generation == 0 and not self.pending_joins

    @property
    def all_have_joined(self) -> bool:
        return not self.pending_joins and all(member.awaiting_join for member in self.members.values())

    @property
    def joining_count(self) -> int:
        return sum(member.awaiting_join is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout of the members."""
        return max((member.timeouts.rebalance_ms for member in self.members.values()), default=0)

    def begin_generation(self, now_ms: int) -> None:
        self.generation += 1
        self.pending_syncs.clear()
        self.protocol = self.select_protocol() if self.members else None
        self.transition(
            ClassicGroupState.COMPLETING_REBALANCE if self.members else ClassicGroupState.EMPTY, now_ms
        )

    def note(self, reason: str) -> None:
        """Record a reason; number and length are bounded, because clients choose them."""
        if len(self.reasons) < MAX_REASONS:
            self.reasons.append(reason[:MAX_REASON])

    # -- members ------------------------------------------------------------------------------------

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicGroupMember:
        """Return the member that sent a request; an instance id must belong to that member id."""
        if instance_id is not None:
            holder = self.static_members.get(instance_id)
            if holder is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {instance_id}")
            if holder != member_id:
                raise KafkaError(
                    ErrorCode.FENCED_INSTANCE_ID,
                    f"another process has joined with the instance id {instance_id}",
                )
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is not a member of {self.group_id}")
        return member

    def check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION,
                f"generation {generation} of {self.group_id} is over, it has generation {self.generation}",
            )

    def add(self, member: ClassicGroupMember, protocol_type: str, *, is_read: bool = True) -> None:
        """`is_read`: its subscription, which may be large. Otherwise it counts as not understood until it rejoins."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self._supporters.update(_names(member.protocols))
        self.pending_joins.discard(member.member_id)
        self.topics.set(member.member_id, member.topics() if is_read else None)

    def update(
        self, member: ClassicGroupMember, protocols: Sequence[MemberProtocol], timeouts: Timeouts
    ) -> None:
        self._supporters.subtract(_names(member.protocols))
        self._supporters.update(_names(protocols))
        member.protocols = protocols
        member.timeouts = timeouts
        self.topics.set(member.member_id, member.topics())

    def remove(self, member_id: str, result: GroupResult) -> None:
        """Remove a member, pending or joined, and answer its parked requests with UNKNOWN_MEMBER_ID."""
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._supporters.subtract(_names(member.protocols))
        self.topics.remove(member_id)
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        _dismiss(member, ErrorCode.UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER, result)

    def replace_static(self, instance_id: str, new_id: str, result: GroupResult) -> ClassicGroupMember:
        """Replace the process behind an instance id; parked requests of the old one are fenced."""
        old_id = self.static_members[instance_id]
        old = self.members.pop(old_id)
        _dismiss(old, ErrorCode.FENCED_INSTANCE_ID, old_id, result)
        self.pending_syncs.discard(old_id)
        self.topics.remove(old_id)
        member = self.members[new_id] = old.renamed(new_id)
        self.topics.set(new_id, member.topics())
        self.static_members[instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        return member

    def dismiss_all(self, error: ErrorCode, result: GroupResult) -> None:
        """Answer all parked requests with `error`: the group is being removed."""
        for member in self.members.values():
            _dismiss(member, error, member.member_id, result)

    def elect_joined_leader(self) -> bool:
        """Elect a leader among the members that have joined; False if none has."""
        if self.leader is not None and self.members[self.leader].awaiting_join is None:
            joined = (member.member_id for member in self.members.values() if member.awaiting_join)
            new_leader = next(joined, None)
            if new_leader is None:
                return False
            self.leader = new_leader
        return self.leader is not None

    # -- protocols ----------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Iterable[MemberProtocol]) -> bool:
        """True if a member with these protocols has one in common with all others."""
        names = _names(protocols)
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type and names)
        return protocol_type == self.protocol_type and any(
            self._supporters[name] == len(self.members) for name in names
        )

    def select_protocol(self) -> str:
        """Each member votes for the first of its protocols that all members support; most votes win."""
        candidates = {name for name, count in self._supporters.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    @property
    def is_understood(self) -> bool:
        """True if the members are consumers with readable subscriptions."""
        return self.protocol_type == CONSUMER_PROTOCOL and self.topics.are_known

    def consumes(self, topic: str) -> bool:
        """True if a member subscribes to the topic, or if the subscriptions cannot be read."""
        if self.is_understood:
            return topic in self.topics
        return self.protocol_type == CONSUMER_PROTOCOL and bool(self.members)

    # -- what administrators and offsets depend on --------------------------------------------------

    def retained_since(self) -> Age | None:
        if self.protocol_type is None:
            return commit_time  # no member has ever joined: a consumer with manual assignment
        if self.state is ClassicGroupState.EMPTY:
            return lambda committed: self.state_since_ms
        if self.state is ClassicGroupState.STABLE and self.is_understood:
            return commit_time  # of topics that no member consumes
        return None

    def check_offset_deletion(self) -> None:
        """Raise if members exist whose protocol does not reveal which offsets are in use."""
        if self.state is not ClassicGroupState.EMPTY and self.protocol_type != CONSUMER_PROTOCOL:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {self.group_id} has members")

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Always allowed: the classic protocol does not identify the reader."""

    def weight(self) -> Weight:
        pending = len(self.pending_joins)
        size = sum(member.weight for member in self.members.values()) + pending * MEMBER_BYTES
        return Weight(len(self.members) + pending, size + self.topics.size)

    def tombstones(self) -> list[CoordinatorRecord]:
        return [CoordinatorRecord(encode_key(GroupMetadataKey(group=self.group_id)), None)]

    # -- answers ------------------------------------------------------------------------------------

    def join_response(
        self, member: ClassicGroupMember, *, skip_assignment: bool = False
    ) -> JoinGroupResponse:
        """The current generation for one member; the leader receives the member list."""
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            leader=self.leader or "",
            skip_assignment=skip_assignment,
            member_id=member.member_id,
            members=self._everybody() if self.leader == member.member_id else [],
        )

    def _everybody(self) -> list[JoinGroupResponseMember]:
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(self.protocol),
            )
            for member in self.members.values()
        ]

    def sync_response(self, assignment: bytes) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=self.protocol_type, protocol_name=self.protocol, assignment=assignment
        )

    def confirm(self, assignments: dict[str, bytes], since_ms: int) -> None:
        """The current generation is stored and therefore in force."""
        for member_id, assignment in assignments.items():
            self.members[member_id].assignment = assignment
        if self.state is ClassicGroupState.COMPLETING_REBALANCE:
            self.transition(ClassicGroupState.STABLE, since_ms)
        self.written_generation = self.generation


def _names(protocols: Iterable[MemberProtocol]) -> set[str]:
    """Distinct names: a member has one vote, even if it lists a protocol twice."""
    return {protocol.name for protocol in protocols}


def _dismiss(member: ClassicGroupMember, error: ErrorCode, told_id: str, result: GroupResult) -> None:
    join, member.awaiting_join = member.awaiting_join, None
    if join is not None:
        result.replies.append(join.reply(join_error(told_id, error)))
    sync, member.awaiting_sync = member.awaiting_sync, None
    if sync is not None:
        result.replies.append(sync_reply(sync, SyncGroupResponse(error_code=error)))
