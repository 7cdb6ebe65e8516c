"""One member of a classic group, and which topics members consume."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812 - struct names its exception in lower case
from typing import NamedTuple

from barnabas.groups.group import Client
from barnabas.groups.ledger import MEMBER_BYTES
from barnabas.groups.step import Respond

_VERSION_AND_COUNT = Struct(">hi")
_LENGTH = Struct(">h")


class Protocol(NamedTuple):
    """An assignor that a member knows, and what it says to the leader under it."""

    name: str
    metadata: bytes


def protocol_bytes(protocols: Iterable[Protocol]) -> int:
    return sum(len(protocol.name) + len(protocol.metadata) for protocol in protocols)


class Timeouts(NamedTuple):
    rebalance_ms: int
    session_ms: int


class Member:
    """What a member has told us, what it was assigned, and which of its requests is held back.

    `is_new` until its first join is answered: it does not know its id yet and cannot send heartbeats.
    """

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client",
        "instance_id",
        "is_new",
        "member_id",
        "protocols",
        "timeouts",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client: Client,
        timeouts: Timeouts,
        protocols: Sequence[Protocol],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client = client
        self.timeouts = timeouts
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        self.awaiting_join: Respond | None = None
        self.awaiting_sync: Respond | None = None

    @property
    def keeps_quiet(self) -> bool:
        """A member whose request we hold back cannot send heartbeats; a new one is not waited for forever."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    @property
    def weight(self) -> int:
        """Bytes of memory, about."""
        return MEMBER_BYTES + len(self.assignment) + protocol_bytes(self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        return next((known.metadata for known in self.protocols if known.name == protocol), b"")

    def vote(self, candidates: Collection[str]) -> str:
        """The first protocol on the member's own list that everybody knows."""
        return next(known.name for known in self.protocols if known.name in candidates)

    def renamed(self, member_id: str) -> Member:
        """A static member that has come back: another id, the same place in the group."""
        return Member(
            member_id, self.instance_id, self.client, self.timeouts, self.protocols, self.assignment
        )

    def __repr__(self) -> str:
        return f"Member({self.member_id!r}, {self.instance_id!r})"


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics of some subscriptions; None when one of them cannot be read."""
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            topics.update(_topics_of(subscription))
    except (StructError, ValueError):
        return None
    return frozenset(topics)


def _topics_of(subscription: bytes) -> list[str]:
    """Every version of a subscription begins alike: version, then the list of topics."""
    version, count = _VERSION_AND_COUNT.unpack_from(subscription)
    if version < 0 or not 0 <= count <= len(subscription):
        raise ValueError(f"a subscription of version {version} with {count} topics")
    topics, position = [], _VERSION_AND_COUNT.size
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(subscription, position)
        position += _LENGTH.size
        name = subscription[position : position + length]
        if length < 0 or len(name) != length:
            raise ValueError(f"a topic name of {length} bytes does not fit")
        topics.append(name.decode())
        position += length
    return topics
