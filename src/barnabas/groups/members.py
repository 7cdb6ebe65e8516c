"""One member of a classic group."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from barnabas.groups.ledger import MEMBER_BYTES
from barnabas.groups.step import Respond


class Client(NamedTuple):
    """Who is asking, as far as the coordinator cares."""

    client_id: str
    host: str


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
