"""Kafka's KafkaPrincipal: a type and a name, and how a broker tells it to another one (KIP-590)."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.protocol.coordinator_records import decode_versioned, encode_versioned
from barnabas.protocol.messages.replication import DefaultPrincipalData
from barnabas.protocol.wire import ProtocolError, UnknownVersionError

USER = "User"
_VERSION = 0


class Principal(NamedTuple):
    """What authentication found out, as `User:alice`."""

    type: str
    name: str
    is_token_authenticated: bool = False

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""Everyone on a listener that does not authenticate."""

BROKER = Principal("Broker", "barnabas")
"""A broker that asks for itself. Clients are users: none of them can be called so."""


def serialized(principal: Principal) -> bytes:
    """As Kafka's DefaultKafkaPrincipalBuilder does it: the version, then the message."""
    return encode_versioned(DefaultPrincipalData(*principal), _VERSION)


def deserialized(data: bytes) -> Principal:
    """The principal that another broker tells; ProtocolError when it is none."""
    try:
        told = decode_versioned(DefaultPrincipalData, data)
    except UnknownVersionError as error:
        raise ProtocolError(str(error)) from error
    return Principal(told.type, told.name, told.token_authenticated)
