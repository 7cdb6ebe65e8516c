"""Memory budget of all groups of a broker.

Any client can create groups, members and member metadata, so their totals are bounded: groups and members by count
(`barnabas.groups.max`, `barnabas.groups.max.members`), metadata and committed offsets by bytes
(`barnabas.groups.max.bytes`). The usage is updated where members change, so a heartbeat
costs nothing here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from barnabas.common.errors import ErrorCode, KafkaError

MEMBER_BYTES = 1000  # memory of a member without metadata
NAME_BYTES = 100  # a topic in a subscription, without its characters: a string and its slot in a set
PROTOCOL_BYTES = 1000  # a protocol of a member; Java consumers have two
OFFSET_BYTES = 350  # an offset without metadata
UNBOUNDED = 2**63 - 1


class Weight(NamedTuple):
    """Members include pending ones, which have an id and have not joined with it (KIP-394)."""

    members: int
    size: int


NOTHING = Weight(0, 0)


class HasWeight(Protocol):
    def weight(self) -> Weight: ...


class MemoryLimits(NamedTuple):
    groups: int = UNBOUNDED
    members: int = UNBOUNDED
    size: int = UNBOUNDED
    topics: int = UNBOUNDED
    """Topics that one member may subscribe to by name."""
    metadata: int = UNBOUNDED
    """Metadata bytes of one classic member, over all its protocols."""


class MemoryBudget:
    def __init__(self, bounds: MemoryLimits | None = None) -> None:
        self.bounds = bounds or MemoryLimits()
        self.offset_bytes = 0
        """Updated by the offset stores."""
        self.refused: Counter[str] = Counter()
        self.max_topics = 0
        """Largest subscription of a member so far."""
        self.max_metadata = 0
        self._members = self._member_bytes = 0
        self._weights: dict[str, Weight] = {}
        self._changed: dict[str, Mapping[str, HasWeight]] = {}

    def changed(self, groups: Mapping[str, HasWeight], *group_ids: str) -> None:
        """Members of these groups or their metadata have changed; `groups` has those that still exist."""
        for group_id in group_ids:
            self._changed[group_id] = groups

    # -- totals -------------------------------------------------------------------------------------

    @property
    def groups(self) -> int:
        self._weigh()
        return len(self._weights)

    @property
    def members(self) -> int:
        self._weigh()
        return self._members

    @property
    def member_bytes(self) -> int:
        self._weigh()
        return self._member_bytes

    def _weigh(self) -> None:
        while self._changed:
            group_id, groups = self._changed.popitem()
            group = groups.get(group_id)
            before = self._weights.pop(group_id, NOTHING)
            after = NOTHING if group is None else group.weight()
            if group is not None:
                self._weights[group_id] = after
            self._members += after.members - before.members
            self._member_bytes += after.size - before.size

    # -- room ---------------------------------------------------------------------------------------

    def check_group(self) -> None:
        """Raise if another group exceeds the limit."""
        if self.groups >= self.bounds.groups:
            raise self._full("groups", f"as many groups as barnabas.groups.max allows ({self.bounds.groups})")

    def check_member(self) -> None:
        """Raise if another member exceeds the limit; existing members may always rejoin."""
        if self.members >= self.bounds.members:
            limit = self.bounds.members
            raise self._full(
                "members", f"as many members of groups as barnabas.groups.max.members allows ({limit})"
            )

    def check_bytes(self, wanted: int) -> None:
        """Raise if `size` more bytes of member metadata exceed the budget."""
        if self.member_bytes + wanted > self.bounds.size:
            limit = self.bounds.size
            raise self._full(
                "bytes", f"as much of its groups in memory as barnabas.groups.max.bytes allows ({limit})"
            )

    def check_metadata(self, protocols: int, size: int) -> None:
        """Raise if one member's metadata is too large: all of it is parsed, stored and sent to the leader."""
        limit = self.bounds.metadata
        if size > limit or protocols * PROTOCOL_BYTES > limit:
            self.refused["metadata"] += 1
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"a member has {protocols} protocols with metadata of {size} bytes, and "
                f"barnabas.groups.max.member.metadata.bytes allows {limit}: subscribe by pattern, or raise the setting",
            )
        self.max_metadata = max(self.max_metadata, size)

    def check_topics(self, names: int) -> None:
        """Raise if one member subscribes to too many topics: they are parsed and written in one turn of the loop."""
        if names > self.bounds.topics:
            self.refused["topics"] += 1
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"a member subscribes to {names} topics, and barnabas.groups.max.subscribed.topics allows "
                f"{self.bounds.topics}: subscribe by pattern, or raise the setting",
            )
        self.max_topics = max(self.max_topics, names)

    def check_offsets(self, wanted: int) -> None:
        if wanted and self.offset_bytes + wanted > self.bounds.size:
            refusal = self._full(
                "offsets", f"as many offsets as barnabas.groups.max.bytes allows ({self.bounds.size})"
            )
            raise KafkaError(ErrorCode.INVALID_COMMIT_OFFSET_SIZE, refusal.message)

    def _full(self, what: str, text: str) -> KafkaError:
        self.refused[what] += 1
        return KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"this broker has {text}: delete unused groups, or raise the setting",
        )


def text_bytes(texts: Iterable[str | None]) -> int:
    return sum(len(text) for text in texts if text)
