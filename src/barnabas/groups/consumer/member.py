"""A member of a consumer group: its metadata and its progress towards the target assignment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

import msgspec

from barnabas.common.types import Uuid
from barnabas.groups.classic.member import MemberProtocol
from barnabas.groups.group import ClientInfo
from barnabas.groups.modern import JOINING, Assignment

Owned = Mapping[Uuid, Mapping[int, int]]
"""Partitions by topic id, each with the assignment epoch since which the member owns it (KIP-1251). Immutable."""

NO_EPOCH = -1
NO_TIMEOUT = -1
NO_PATTERN = ""


class MemberState(IntEnum):
    """The numbers are those of the records."""

    STABLE = 0
    """It owns all of its target that is available."""

    UNREVOKED = 1
    """It has to revoke partitions first."""

    UNRELEASED = 2
    """Other members have not released all partitions of its target."""

    UNKNOWN = 127


class ClassicMember(msgspec.Struct, frozen=True):
    """JoinGroup metadata of a member that uses the classic protocol."""

    session_ms: int
    protocols: tuple[MemberProtocol, ...]

    @property
    def protocol(self) -> MemberProtocol:
        """The selected protocol: the first of its list."""
        return self.protocols[0]


class ConsumerMember(msgspec.Struct, frozen=True, kw_only=True):
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client: ClientInfo = ClientInfo("", "")
    rebalance_ms: int = NO_TIMEOUT
    subscribed_topic_names: frozenset[str] = frozenset()
    pattern: str = NO_PATTERN
    assignor: str | None = None
    classic: ClassicMember | None = None
    member_epoch: int = JOINING
    previous_member_epoch: int = NO_EPOCH
    state: MemberState = MemberState.STABLE
    owned: Owned = {}
    revoking: Owned = {}
    """Partitions that it owns and has been asked to revoke."""

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def changed(self, **fields: Any) -> ConsumerMember:
        """A copy with these fields, or itself if nothing differs."""
        different = {name: value for name, value in fields.items() if getattr(self, name) != value}
        return msgspec.structs.replace(self, **different) if different else self

    def moved(self, epoch: int, state: MemberState, owned: Owned, revoking: Owned) -> ConsumerMember:
        """The member after its next step towards the target."""
        return msgspec.structs.replace(
            self,
            previous_member_epoch=self.member_epoch,
            member_epoch=epoch,
            state=state,
            owned=owned,
            revoking=revoking,
        )

    def assignment_epoch(self, topic_id: Uuid, partition: int) -> int | None:
        """Assignment epoch since which it owns a partition, also one to revoke; None if it does not own it."""
        for owned in (self.owned, self.revoking):
            epoch = owned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None


def contains_all(owned: Owned, reported: Iterable[tuple[Uuid, Iterable[int]]]) -> bool:
    return all(index in owned.get(topic, {}) for topic, indexes in reported for index in indexes)


def contains_any(owned: Owned, reported: Iterable[tuple[Uuid, Iterable[int]]]) -> bool:
    return any(index in owned.get(topic, {}) for topic, indexes in reported for index in indexes)


def without_epochs(owned: Owned) -> Assignment:
    return {topic: frozenset(indexes) for topic, indexes in owned.items()}


def with_epoch(assignment: Assignment, epoch: int) -> Owned:
    return {topic: dict.fromkeys(indexes, epoch) for topic, indexes in assignment.items()}
