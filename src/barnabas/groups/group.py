"""The interface of all group types: for the shard, administration and committed offsets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sized
from enum import Enum
from typing import ClassVar, NamedTuple

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition, Uuid
from barnabas.coordination import CoordinatorRecord
from barnabas.groups.memory_budget import Weight
from barnabas.groups.offsets import Committed

UNKNOWN_MEMBER = ""
"""Member id of a member that has none yet."""


class GroupType(Enum):
    """The names are those of ListGroups and of Kafka's tools."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


def sees_all(topic: str) -> bool:
    """Without an authorizer every client may describe every topic."""
    return True


class ClientInfo:
    """The client that sent a request.

    Its rights do not count in comparisons: they are a new object in each request, and a heartbeat of a member whose
    client is the same writes no record.
    """

    __slots__ = ("client_id", "host", "may_describe")

    def __init__(self, client_id: str, host: str, may_describe: Callable[[str], bool] = sees_all) -> None:
        self.client_id = client_id
        self.host = host
        self.may_describe = may_describe

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClientInfo) and (self.client_id, self.host) == (other.client_id, other.host)

    def __hash__(self) -> int:
        return hash((self.client_id, self.host))

    def __repr__(self) -> str:
        return f"ClientInfo({self.client_id!r}, {self.host!r})"


class DeadlineType(Enum):
    """Events that a group waits for. All group types share these."""

    INITIAL_DELAY = "more members of a new group"
    JOIN = "members to join"
    SYNC = "members to sync"
    HEARTBEAT = "a member's next sign of life"
    REVOCATION = "a member to give up what it no longer owns"


class GroupDeadline(NamedTuple):
    """The key of a deadline in `coordination.deadlines`."""

    type: DeadlineType
    group_id: str
    member_id: str = ""


FIRST_COMMIT_WITH_EPOCHS = 9


class Committer(NamedTuple):
    """The sender of an offset commit. `epoch` is a generation or a member epoch."""

    member_id: str
    instance_id: str | None
    epoch: int
    version: int = 0
    in_transaction: bool = False

    @property
    def is_outside(self) -> bool:
        """True if the sender does not claim to be a member."""
        return self.epoch < 0 and self.member_id == UNKNOWN_MEMBER and self.instance_id is None

    def needs_no_member(self, members: Sized) -> bool:
        """True if any client may commit: the group has no members, or a transaction commits from outside the group."""
        return (self.epoch < 0 and not members) or (self.in_transaction and self.is_outside)

    def check_version(self, protocol: str) -> None:
        """Raise if the request is too old to carry the member epoch of a newer protocol."""
        if not self.in_transaction and self.version < FIRST_COMMIT_WITH_EPOCHS:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"OffsetCommit version {FIRST_COMMIT_WITH_EPOCHS} or above must be used by members using the "
                f"{protocol} group protocol",
            )


PartitionCheck = Callable[[TopicPartition, Uuid], None]
"""Raises a KafkaError if an offset of this partition must not be committed."""

Age = Callable[[Committed], int]
"""Start of an offset's retention."""


def any_partition(tp: TopicPartition, topic_id: Uuid) -> None:
    """Allow all partitions: the check of the group is sufficient."""


def commit_time(committed: Committed) -> int:
    return committed.commit_ms


class Group(ABC):
    """State of a group. Its behaviour is in the manager of its type (`GroupManager`)."""

    group_type: ClassVar[GroupType]

    group_id: str
    protocol_type: str | None
    """`consumer` for consumers of either protocol; None if no member has ever joined."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """As Kafka's tools show it."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """True without members; an administrator may then delete the group."""

    @abstractmethod
    def consumes(self, topic: str) -> bool:
        """True if a member subscribes to the topic; its offsets neither expire nor may be deleted."""

    @abstractmethod
    def retained_since(self) -> Age | None:
        """Start of the retention of an offset; None while offsets do not expire."""

    @abstractmethod
    def tombstones(self) -> list[CoordinatorRecord]:
        """Tombstones for every record of the group, offsets excluded."""

    @abstractmethod
    def weight(self) -> Weight:
        """Number of members and their memory."""

    @property
    def expires(self) -> bool:
        """True if the group is dropped without members and offsets. Share groups keep their state elsewhere."""
        return True

    @property
    def is_awaited(self) -> bool:
        """True while a member without an id is expected to join: the group must be kept."""
        return False

    @abstractmethod
    def check_offset_deletion(self) -> None:
        """Raise if it is unknown which offsets are in use."""

    @abstractmethod
    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise if a member with this epoch may not read offsets. Only the newer protocols check."""

    def check_deletion(self) -> None:
        if not self.is_empty:
            raise KafkaError(
                ErrorCode.NON_EMPTY_GROUP, f"Group {self.group_id} has members. Stop them first."
            )
