"""Common base of the newer group protocols (consumer, share and streams groups; KIP-848, 932, 1071).

Theory of operation. Members only send heartbeats; the coordinator decides. Three epochs track the progress of a
change:

- the *group epoch* rises when something invalidates the current assignment: a member joined, left or changed its
  subscription, or the subscribed topics changed (their hash differs from the one in the group's record);
- the *assignment epoch* is the group epoch that the target assignment was computed for;
- the *member epoch* of each member is the assignment epoch that it has caught up with. It advances with the member's
  heartbeats; a member waits only for members that own partitions of its target.

All state here comes from records and changes in replay only. State that a restart may lose (deadlines, whether
the topics must be compared again) is kept separately and rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from enum import Enum
from functools import lru_cache
from typing import Generic, Protocol, TypeVar

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import Uuid
from barnabas.groups.group import Age, Group, commit_time
from barnabas.groups.memory_budget import MEMBER_BYTES, Weight
from barnabas.groups.topics import NO_NAMES, Names, Subscriptions

JOINING = 0
"""Epoch that a member sends to join."""

LEAVING = -1

LEAVING_FOR_A_WHILE = -2
"""Epoch of a static member that leaves temporarily."""

FIRST_EPOCH = 1
"""Epoch of a group without records, as in Kafka 4.3: the first assignment is due immediately."""

NO_ASSIGNMENT_YET = 0
"""Assignment time of a group without a target, or of a former classic group."""

MANY_PARTITIONS = 1000

Assignment = Mapping[Uuid, Set[int]]
"""Partitions by topic id. Values are immutable."""


def partitions_of(indexes: Iterable[int]) -> frozenset[int]:
    """A set of partitions. Most have one element, and a group may have a million of them: those are shared."""
    made = frozenset(indexes)
    return _alone(*made) if len(made) == 1 else made


@lru_cache(MANY_PARTITIONS)
def _alone(index: int) -> frozenset[int]:
    return frozenset((index,))


class ModernGroupState(Enum):
    """The names are those that Kafka's tools show."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ModernMember(Protocol):
    """The member attributes that the base uses; each group type has its immutable class."""

    @property
    def member_id(self) -> str: ...

    @property
    def instance_id(self) -> str | None: ...

    @property
    def member_epoch(self) -> int: ...

    @property
    def previous_member_epoch(self) -> int: ...

    @property
    def subscribed_topic_names(self) -> Names: ...

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """True if it owns exactly its target."""
        ...


M = TypeVar("M", bound=ModernMember)
A = TypeVar("A")


class ModernGroup(Group, Generic[M, A]):
    """A group of members `M`, whose target assignments are of type `A` (partitions, or tasks of a topology)."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assigned_at_ms = NO_ASSIGNMENT_YET
        self.members: dict[str, M] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, A] = {}
        self.subscriptions = Subscriptions()
        self.topics_may_have_changed = True
        """The next heartbeat compares the hash of the topics; True after loading."""

    # -- facts --------------------------------------------------------------------------------------

    @property
    def state(self) -> ModernGroupState:
        if not self.members:
            return ModernGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ModernGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ModernGroupState.STABLE
        return ModernGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return not self.members

    def subscribed_topics(self) -> Set[str]:
        """Names of all topics that the assignment depends on."""
        return self.subscriptions.topics

    def consumes(self, topic: str) -> bool:
        return topic in self.subscribed_topics()

    def retained_since(self) -> Age | None:
        return commit_time

    def check_offset_deletion(self) -> None:
        """Always allowed: the subscribed topics are known."""

    def member(self, member_id: str) -> M:
        found = self.members.get(member_id)
        if found is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return found

    def static_member(self, instance_id: str | None) -> M | None:
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members[member_id]

    def weight(self) -> Weight:
        return Weight(len(self.members), len(self.members) * MEMBER_BYTES + self.subscriptions.size)

    # -- replays ------------------------------------------------------------------------------------

    def set_epoch(self, epoch: int, metadata_hash: int) -> None:
        self.epoch, self.metadata_hash = epoch, metadata_hash
        self.topics_may_have_changed = False

    def set_assignment_epoch(self, epoch: int, timestamp_ms: int) -> None:
        self.assignment_epoch, self.assigned_at_ms = epoch, timestamp_ms

    def store(self, member: M) -> None:
        self._count(self.members.get(member.member_id), member)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        self._count(member, None)
        if member is not None and self.static_members.get(member.instance_id or "") == member_id:
            del self.static_members[member.instance_id or ""]

    def _count(self, before: M | None, after: M | None) -> None:
        old = before.subscribed_topic_names if before is not None else NO_NAMES
        new = after.subscribed_topic_names if after is not None else NO_NAMES
        self.subscriptions.replace(old, new)


def check_member_epoch(
    kind: str, member: ModernMember, received: int, *, may_repeat: bool, tells_previous: bool = False
) -> None:
    """Fence a member with another epoch. `may_repeat`: the request may repeat one whose response was lost.
    `tells_previous`: the message includes the previous epoch, as Kafka's does for share groups."""
    if received in (JOINING, member.member_epoch):
        return
    previous = ""
    if received > member.member_epoch:
        relation = "a greater"
    elif received != member.previous_member_epoch or not may_repeat:
        relation = "a smaller"
        if tells_previous:
            previous = f", and it does not match the previous member epoch ({member.previous_member_epoch})"
    else:
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {kind} group member has {relation} member epoch ({received}) than the one known by the group "
        f"coordinator ({member.member_epoch}){previous}. The member must abandon all its partitions and rejoin.",
    )


def may_assign(group: ModernGroup[M, A], interval_ms: int, now_ms: int) -> bool:
    """True if the last assignment is old enough: members that join together are then assigned together."""
    # The time is from the previous coordinator's clock; ours may be behind it, or may have been set back.
    return group.assigned_at_ms == NO_ASSIGNMENT_YET or not 0 <= now_ms - group.assigned_at_ms < interval_ms
