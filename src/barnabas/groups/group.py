"""What every group is to those who do not care about its type: the shard, administrators, committed offsets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sized
from enum import Enum
from typing import ClassVar, NamedTuple

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition, Uuid
from barnabas.coordination.shard import CoordinatorRecord
from barnabas.groups.ledger import Weight
from barnabas.groups.offsets import Committed

UNKNOWN_MEMBER = ""
"""The member id of who has none yet."""


class GroupType(Enum):
    """The names are those of ListGroups and of Kafka's tools."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


def sees_all(topic: str) -> bool:
    """Where no client is kept from describing a topic."""
    return True


class Client(NamedTuple):
    """Who is asking, as far as the coordinator cares."""

    client_id: str
    host: str
    may_describe: Callable[[str], bool] = sees_all


class DeadlineType(Enum):
    """What a group waits for until a deadline. Every type of group uses the same words."""

    INITIAL_DELAY = "more members of a new group"
    JOIN = "members to join"
    SYNC = "members to sync"
    HEARTBEAT = "a member's next sign of life"
    REVOCATION = "a member to give up what it no longer owns"


class Deadline(NamedTuple):
    """The key of a deadline in `coordination.deadlines`."""

    type: DeadlineType
    group_id: str
    member_id: str = ""


FIRST_COMMIT_WITH_EPOCHS = 9


class Committer(NamedTuple):
    """Who wants to commit offsets. `epoch` is a generation, or the epoch of a member."""

    member_id: str
    instance_id: str | None
    epoch: int
    version: int = 0
    in_transaction: bool = False

    @property
    def is_outside(self) -> bool:
        """It does not claim to be a member."""
        return self.epoch < 0 and self.member_id == UNKNOWN_MEMBER and self.instance_id is None

    def needs_no_member(self, members: Sized) -> bool:
        """Is it nobody's business who commits? In a group without members, and in a transaction of somebody outside."""
        return (self.epoch < 0 and not members) or (self.in_transaction and self.is_outside)

    def check_version(self, protocol: str) -> None:
        """A member of a newer protocol has an epoch, which older requests do not carry."""
        if not self.in_transaction and self.version < FIRST_COMMIT_WITH_EPOCHS:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"OffsetCommit version {FIRST_COMMIT_WITH_EPOCHS} or above must be used by members using the "
                f"{protocol} group protocol",
            )


PartitionCheck = Callable[[TopicPartition, Uuid], None]
"""Raises a KafkaError when an offset of this partition must not be committed."""

Age = Callable[[Committed], int]
"""From when on the retention of an offset counts."""


def any_partition(place: TopicPartition, topic_id: Uuid) -> None:
    """A sender that passed the check of the group may commit every partition."""


def commit_time(committed: Committed) -> int:
    return committed.commit_ms


class Group(ABC):
    """The facts of a group. What it does when asked stands in the kind of group (`kind.GroupKind`)."""

    group_type: ClassVar[GroupType]

    group_id: str
    protocol_type: str | None
    """`consumer` for consumers of either protocol; None when nobody has ever joined."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """As Kafka's tools show it."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """There are no members; an administrator may delete it."""

    @abstractmethod
    def consumes(self, topic: str) -> bool:
        """Is a member subscribed to this topic? Its offsets are neither expired nor deleted then."""

    @abstractmethod
    def retained_since(self) -> Age | None:
        """From when on the retention of an offset counts; None: not as long as the group is as it is."""

    @abstractmethod
    def tombstones(self) -> list[CoordinatorRecord]:
        """What takes every record of the group (not of its offsets) out of the log."""

    @abstractmethod
    def weight(self) -> Weight:
        """How many members it has, and how much memory they take."""

    @property
    def expires(self) -> bool:
        """Is it dropped when it has neither members nor offsets? Share groups keep their state elsewhere."""
        return True

    @property
    def is_awaited(self) -> bool:
        """A member without an id is about to join: the group must not be dropped meanwhile."""
        return False

    @abstractmethod
    def check_offset_deletion(self) -> None:
        """Raises when nobody can tell which offsets are in use."""

    @abstractmethod
    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """May a member with this epoch read offsets? Only the newer protocols care."""

    def check_deletion(self) -> None:
        if not self.is_empty:
            raise KafkaError(
                ErrorCode.NON_EMPTY_GROUP, f"Group {self.group_id} has members. Stop them first."
            )
