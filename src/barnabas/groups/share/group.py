"""A share group: its members, their targets, and the partitions that have state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import Uuid
from barnabas.coordination import CoordinatorRecord
from barnabas.groups.group import GroupType
from barnabas.groups.modern import Assignment, ModernGroup, ModernGroupState
from barnabas.groups.share.member import ShareMember
from barnabas.groups.share.records import group_tombstones
from barnabas.groups.share.state_partitions import NamedPartitions, StatePartitions
from barnabas.groups.topics import ImageTopics
from barnabas.protocol.messages.share import (
    DescribedGroup,
    Member,
    ShareGroupDescribeAssignment,
    ShareGroupDescribeTopicPartitions,
)

FIRST_EPOCH = 1  # since Kafka 4.3 groups start at 1, so their first members join at 2


class ShareGroup(ModernGroup[ShareMember, Assignment]):
    group_type = GroupType.SHARE

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.protocol_type = "share"
        self.epoch = self.assignment_epoch = FIRST_EPOCH
        self.states = StatePartitions()
        self._in_order: tuple[int, StatePartitions] | None = None
        self._complete: tuple[int, frozenset[str], StatePartitions] | None = None

    @property
    def state(self) -> ModernGroupState:
        """Members adopt their target immediately: there is nothing to reconcile."""
        return ModernGroupState.STABLE if self.members else ModernGroupState.EMPTY

    @property
    def expires(self) -> bool:
        """Never: its state is kept until an administrator deletes it."""
        return False

    def tombstones(self) -> list[CoordinatorRecord]:
        return group_tombstones(self.group_id, self.members)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Offsets that were committed under this group id may be read; the group does not use them."""

    def check_empty(self) -> None:
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")

    # -- partitions ---------------------------------------------------------------------------------

    def assignable(self, names: Iterable[str]) -> dict[Uuid, frozenset[int]]:
        """Partitions of the subscribed topics that have state."""
        return assignable(self.states, set(names))

    @property
    def has_unassigned(self) -> bool:
        """True if state was created for subscribed partitions since the last assignment.

        The result is cached, because computing it visits all members and most heartbeats change nothing.
        """
        if not self.members:
            return False
        seen = self._in_order
        if seen is not None and seen[0] == self.assignment_epoch and seen[1] is self.states:
            return False
        assigned: dict[Uuid, set[int]] = {}
        for target in self.targets.values():
            for topic, indexes in target.items():
                assigned.setdefault(topic, set()).update(indexes)
        found = any(
            assigned.get(topic, set()) != partitions
            for topic, partitions in self.assignable(self.subscribed_topics()).items()
        )
        self._in_order = None if found else (self.assignment_epoch, self.states)
        return found

    def without_state(
        self, topics: ImageTopics, names: Iterable[str], is_begun: Callable[[Uuid], bool]
    ) -> dict[Uuid, NamedPartitions]:
        """Subscribed partitions that need state now; `is_begun`: creation is in progress."""
        seen, wanted = self._complete, frozenset(names)
        if seen is not None and seen[:2] == (topics.version, wanted) and seen[2] is self.states:
            return {}
        found: dict[Uuid, NamedPartitions] = {}
        for name in wanted:
            topic = topics.find(name)
            if topic is None:
                continue
            if is_begun(topic.topic_id):
                known = self.states.known(topic.topic_id)
            else:
                known = self.states.initialized.get(topic.topic_id, _NOTHING).partitions
            missing = frozenset(range(topic.partitions)) - known
            if missing:
                found[topic.topic_id] = NamedPartitions(name, missing)
        if not found and not self.states.initializing:
            self._complete = (topics.version, wanted, self.states)
        return found


def assignable(states: StatePartitions, names: Set[str]) -> dict[Uuid, frozenset[int]]:
    return {
        topic: each.partitions
        for topic, each in states.initialized.items()
        if each.name in names and each.partitions
    }


_NOTHING = NamedPartitions("", frozenset())


# -- ShareGroupDescribe ---------------------------------------------------------------------------------

ASSIGNOR = "simple"


def described(group: ShareGroup, topics: ImageTopics) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(member, topics) for member in group.members.values()],
    )


def _member(member: ShareMember, topics: ImageTopics) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client.client_id,
        client_host=member.client.host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        assignment=ShareGroupDescribeAssignment(
            topic_partitions=[
                ShareGroupDescribeTopicPartitions(topic_id=topic, topic_name=name, partitions=sorted(indexes))
                for topic, indexes in member.assigned.items()
                if (name := topics.name_of(topic)) is not None
            ]
        ),
    )
