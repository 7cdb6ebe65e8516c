"""Kafka's KafkaPrincipal, a type and a name, and its serialized form in Envelope requests (KIP-590)."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.protocol.coordinator_records import decode_versioned, encode_versioned
from barnabas.protocol.messages.replication import DefaultPrincipalData
from barnabas.protocol.wire import ProtocolError, UnknownVersionError

USER = "User"
_VERSION = 0


class Principal(NamedTuple):
    """Identity of a client after authentication, written as `User:alice`."""

    type: str
    name: str
    is_token_authenticated: bool = False

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""Principal of all clients on a listener without authentication."""

BROKER = Principal("Broker", "barnabas")
"""Principal of requests that a broker sends to itself. Clients have the type `User` and cannot impersonate it."""


def serialized(principal: Principal) -> bytes:
    """Serialize as Kafka's DefaultKafkaPrincipalBuilder does: the version, then the message."""
    return encode_versioned(DefaultPrincipalData(*principal), _VERSION)


def deserialized(data: bytes) -> Principal:
    """Parse a principal serialized by another broker; ProtocolError if malformed."""
    try:
        parsed = decode_versioned(DefaultPrincipalData, data)
    except UnknownVersionError as error:
        raise ProtocolError(str(error)) from error
    return Principal(parsed.type, parsed.name, parsed.token_authenticated)
