"""Interface of a group type in a shard: requests, replay and deadlines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from barnabas.common.clock import Clock
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.coordination import CoordinatorResult, Deadlines
from barnabas.groups.group import Committer, DeadlineType, Group, GroupDeadline, GroupType, PartitionCheck
from barnabas.groups.memory_budget import MemoryBudget
from barnabas.groups.modern import ModernGroup
from barnabas.groups.offsets import OffsetStore
from barnabas.groups.results import GroupResult
from barnabas.groups.settings import GroupConfigs, GroupSettings
from barnabas.groups.topics import ImageTopics
from barnabas.protocol.schema import Message

Operation = Callable[[], CoordinatorResult[None]]
Replay = Callable[[Any, Any], None]
"""Replays a record: its key, and its value or None for a tombstone."""


@dataclass(slots=True)
class ShardContext:
    """Context that all group types of one shard share.

    `soon` runs an operation in a later turn of the loop; `groups` has the groups of every type.
    """

    settings: GroupSettings
    clock: Clock
    deadlines: Deadlines[GroupDeadline]
    topics: ImageTopics
    configs: GroupConfigs
    soon: Callable[[Operation], None]
    ledger: MemoryBudget = field(default_factory=MemoryBudget)
    groups: dict[str, Group] = field(default_factory=dict)
    offsets: OffsetStore = field(init=False)
    is_live: bool = False
    """True once the log has been replayed: later replays are of records that this coordinator wrote."""

    def __post_init__(self) -> None:
        self.offsets = OffsetStore(self.ledger)


def check_size(kind: str, group: ModernGroup[Any, Any], member_id: str, largest: int) -> None:
    """Raise if the group has no room for another member."""
    if len(group.members) >= largest and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The {kind} group has reached its maximum capacity of {largest} members.",
        )


def check_room_for_all(context: ShardContext, group: ModernGroup[Any, Any], member_id: str) -> None:
    """Raise if this broker has no room for another member, or for its group if that is new."""
    if member_id not in group.members:
        if group.group_id not in context.groups:
            context.ledger.check_group()
        context.ledger.check_member()
        context.ledger.check_bytes(0)


G = TypeVar("G", bound=Group)


class GroupManager(ABC, Generic[G]):
    """One group type in one shard. Requests add records and replies to a result and change only
    deadlines; `replays` change the groups."""

    group_type: ClassVar[GroupType]
    group_class: type[G]

    def __init__(self, context: ShardContext) -> None:
        self.context = context

    # -- defined by each type -----------------------------------------------------------------------

    @abstractmethod
    def replays(self) -> Mapping[type[Message], Replay]:
        """Replay functions by the class of the record key."""

    @abstractmethod
    def deadline_reached(self, group: G, deadline: GroupDeadline, result: GroupResult) -> None: ...

    @abstractmethod
    def loaded(self, group: G) -> None:
        """The log has been replayed: start the deadlines of the members."""

    @abstractmethod
    def unloaded(self, group: G) -> None:
        """Another broker is the coordinator now: answer parked requests."""

    @abstractmethod
    def check_commit(self, group: G, committer: Committer) -> PartitionCheck:
        """Raise if the sender may not commit offsets of the group; the result checks single partitions."""

    def topics_changed(self, group: G, changed: Set[str], deleted: Set[str]) -> None:
        """Topics were created or deleted, or their partitions or racks changed."""
        if isinstance(group, ModernGroup) and not changed.isdisjoint(group.subscribed_topics()):
            group.topics_may_have_changed = True

    # -- common to all types ------------------------------------------------------------------------

    def find(self, group_id: str) -> G:
        """Return the group; raise GROUP_ID_NOT_FOUND if it does not exist or has another type."""
        group = self.context.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, self.group_class):
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {self.group_type.value} group."
            )
        return group

    def for_replay(self, group_id: str, *, create: bool) -> G | None:
        """The group of a record. A group with offsets only is converted to this type."""
        group = self.context.groups.get(group_id)
        if isinstance(group, self.group_class):
            return group
        if not create:
            return None
        made = self.new_group(group_id)
        self.context.groups[group_id] = made
        return made

    @abstractmethod
    def new_group(self, group_id: str) -> G: ...

    def forget(self, group_id: str) -> None:
        """A tombstone removed the group; its offsets stay in a group without members."""
        if isinstance(self.context.groups.get(group_id), self.group_class):
            del self.context.groups[group_id]

    def expect_heartbeat(self, group_id: str, member_id: str, session_ms: int | None = None) -> None:
        if session_ms is None:
            session_ms = self.context.configs.milliseconds(
                group_id, f"{self.group_type.value}.session.timeout.ms"
            )
        self.context.deadlines.set(GroupDeadline(DeadlineType.HEARTBEAT, group_id, member_id), session_ms)

    def expect_revocation(self, group_id: str, member_id: str, rebalance_ms: int) -> None:
        self.context.deadlines.set(GroupDeadline(DeadlineType.REVOCATION, group_id, member_id), rebalance_ms)

    def expect_nothing(self, group_id: str, member_id: str) -> None:
        """Cancel all deadlines of a removed member."""
        for type_ in (
            DeadlineType.HEARTBEAT,
            DeadlineType.REVOCATION,
            DeadlineType.JOIN,
            DeadlineType.SYNC,
        ):
            self.context.deadlines.cancel(GroupDeadline(type_, group_id, member_id))

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return self.context.configs.milliseconds(group_id, f"{self.group_type.value}.heartbeat.interval.ms")

    def assignment_interval_ms(self, group_id: str) -> int:
        return self.context.configs.milliseconds(group_id, f"{self.group_type.value}.assignment.interval.ms")
