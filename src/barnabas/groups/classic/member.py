"""A member of a classic group, its JoinGroup request, and the topics that members consume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from struct import Struct
from struct import error as StructError  # noqa: N812 - struct names its exception in lower case
from typing import NamedTuple

from barnabas.common.errors import ErrorCode
from barnabas.coordination import Reply
from barnabas.groups.group import ClientInfo
from barnabas.groups.memory_budget import MEMBER_BYTES, NAME_BYTES, text_bytes
from barnabas.groups.results import Respond, group_error, join_error
from barnabas.groups.topics import NO_NAMES, Names
from barnabas.protocol.messages.groups import JoinGroupRequest, JoinGroupResponse

_VERSION_AND_COUNT = Struct(">hi")
_LENGTH = Struct(">h")

FIRST_VERSION_WITH_NULL_PROTOCOL = 7

MAX_NAMES = 10_000
"""Topics of one member that are parsed: five milliseconds. The subscription of a member with more is unreadable."""


class MemberProtocol(NamedTuple):
    """An assignor that a member supports, with the member's metadata for it."""

    name: str
    metadata: bytes


def protocol_bytes(protocols: Iterable[MemberProtocol]) -> int:
    return sum(len(protocol.name) + len(protocol.metadata) for protocol in protocols)


class Timeouts(NamedTuple):
    rebalance_ms: int
    session_ms: int


class JoinRequest(NamedTuple):
    """A JoinGroup request and its sender."""

    request: JoinGroupRequest
    client: ClientInfo
    version: int
    respond: Respond

    def reply(self, response: JoinGroupResponse) -> Reply:
        """Reply to the request after it was parked."""
        member_id = response.member_id
        return Reply(
            self.respond,
            self.compatible(response),
            lambda error: self.error(group_error(error.code), member_id),
        )

    def error(self, code: ErrorCode, member_id: str | None = None) -> JoinGroupResponse:
        return self.compatible(join_error(self.request.member_id if member_id is None else member_id, code))

    def compatible(self, response: JoinGroupResponse) -> JoinGroupResponse:
        """Adapt a response to the version of the request."""
        if self.version < FIRST_VERSION_WITH_NULL_PROTOCOL and response.protocol_name is None:
            response.protocol_name = ""
        return response

    @property
    def protocols(self) -> list[MemberProtocol]:
        return [MemberProtocol(protocol.name, protocol.metadata) for protocol in self.request.protocols]

    @property
    def timeouts(self) -> Timeouts:
        session_ms = self.request.session_timeout_ms
        rebalance_ms = self.request.rebalance_timeout_ms
        return Timeouts(rebalance_ms if self.version >= 1 else session_ms, session_ms)

    def because(self, what: str) -> str:
        reason = self.request.reason
        return f"{what} ({reason})" if reason else what


class ClassicGroupMember:
    """Metadata of a member, its assignment, and its parked request.

    `is_new` until its first join is answered: until then it does not know its id and cannot send heartbeats.
    """

    __slots__ = (
        "_topics",
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
        client: ClientInfo,
        timeouts: Timeouts,
        protocols: Sequence[MemberProtocol],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client = client
        self.timeouts = timeouts
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        self.awaiting_join: JoinRequest | None = None
        self.awaiting_sync: Respond | None = None
        self._topics: tuple[Sequence[MemberProtocol], Names | None] | None = None

    def topics(self) -> Names | None:
        """Subscribed topics of all protocols, cached; None if the subscription is unreadable."""
        if self._topics is None or self._topics[0] is not self.protocols:
            self._topics = self.protocols, subscribed_topics(known.metadata for known in self.protocols)
        return self._topics[1]

    @property
    def keeps_quiet(self) -> bool:
        """True while a request is parked: it sends no heartbeats then. A new member has a deadline."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    @property
    def weight(self) -> int:
        """Approximate bytes of memory."""
        return MEMBER_BYTES + len(self.assignment) + protocol_bytes(self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        return next((known.metadata for known in self.protocols if known.name == protocol), b"")

    def vote(self, candidates: Collection[str]) -> str:
        """The first of the member's protocols among the candidates."""
        return next(known.name for known in self.protocols if known.name in candidates)

    def renamed(self, member_id: str) -> ClassicGroupMember:
        """The same static member under a new member id."""
        return ClassicGroupMember(
            member_id, self.instance_id, self.client, self.timeouts, self.protocols, self.assignment
        )

    def __repr__(self) -> str:
        return f"Member({self.member_id!r}, {self.instance_id!r})"


class ConsumedTopics:
    """Topics that the members of a group subscribe to.

    Members mostly have equal subscriptions, so each set is stored once, and removing a member is cheap.
    """

    def __init__(self) -> None:
        self._of_member: dict[str, Names | None] = {}
        self._members: Counter[Names] = Counter()
        """Number of members per set of names."""
        self._shared: dict[Names, Names] = {}
        self._unknown = 0
        self.size = 0
        """Memory of the sets."""

    def __contains__(self, topic: str) -> bool:
        return any(topic in names for names in self._members)

    def __iter__(self) -> Iterator[str]:
        """Yield each topic once per distinct set."""
        return chain.from_iterable(self._members)

    @property
    def are_known(self) -> bool:
        return not self._unknown

    def set(self, member_id: str, names: Names | None) -> None:
        """Set a member's topics; None if its subscription is unreadable."""
        self.remove(member_id)
        if names is None:
            self._unknown += 1
        else:
            names = self._shared.setdefault(names, names)
            self._members[names] += 1
            if self._members[names] == 1:
                self.size += _size(names)
        self._of_member[member_id] = names

    def remove(self, member_id: str) -> None:
        names = self._of_member.pop(member_id, NO_NAMES)
        if names is None:
            self._unknown -= 1
        elif names in self._members:
            self._members[names] -= 1
            if not self._members[names]:
                del self._members[names], self._shared[names]
                self.size -= _size(names)


def _size(names: Names) -> int:
    return text_bytes(names) + NAME_BYTES * len(names)


def subscribed_topics(subscriptions: Iterable[bytes]) -> Names | None:
    """Union of the topics of some subscriptions; None if one is malformed or there are too many.

    Every version of a subscription begins with its version and the topic list. The remainder is not parsed.
    """
    topics: set[str] = set()
    left, known = MAX_NAMES, b""
    try:
        for subscription in subscriptions:
            if known and subscription.startswith(known):
                continue  # consumers send the same subscription under each protocol
            count = _count(subscription, left)
            end = _read_names(subscription, count, topics)
            left, known = left - count, subscription[:end]
    except (StructError, ValueError):
        return None
    return frozenset(topics)


def _count(subscription: bytes, limit: int) -> int:
    version, count = _VERSION_AND_COUNT.unpack_from(subscription)
    if version < 0 or not 0 <= count <= limit:
        raise ValueError(f"a subscription of version {version} with {count} topics")
    return int(count)


def _read_names(subscription: bytes, count: int, names: set[str]) -> int:
    """Add the names to a set and return the end position."""
    position = _VERSION_AND_COUNT.size
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(subscription, position)
        position += _LENGTH.size
        name = subscription[position : position + length]
        if length < 0 or len(name) != length:
            raise ValueError(f"a topic name of {length} bytes does not fit")
        names.add(name.decode())
        position += length
    return position
