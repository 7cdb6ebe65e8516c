"""Kafka's RequestContext: who sends a request, from where, and over which listener.

A connection has one, which changes when the client names itself otherwise or authenticates; requests refer to it. So it
is never changed in place: a request that waits keeps the context in which it came.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from barnabas.protocol.framing import PEER_CLIENT_ID
from barnabas.security.principal import ANONYMOUS, BROKER, Principal


class ClientConnection(Protocol):
    """What a context knows of the connection that it belongs to."""

    @property
    def closed(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The sender of requests from the network, from ourselves, or forwarded by another broker."""

    principal: Principal
    listener: str
    host: str
    client_id: str | None = None
    software_name: str = ""
    software_version: str = ""
    connection: ClientConnection | None = field(default=None, compare=False, repr=False)
    """None for a request of our own, and for a forwarded one: its client is connected elsewhere."""
    is_privileged: bool = False
    """Did it come where only brokers of the cluster are let in? (decision 0021)"""
    is_forwarded: bool = False
    """Another broker has sent it on in an Envelope: the client is connected there."""

    @property
    def is_peer(self) -> bool:
        """A broker of the cluster: it comes where only those are let in, and names itself so."""
        return self.is_privileged and (self.client_id or "").startswith(PEER_CLIENT_ID)

    def named(self, client_id: str | None) -> RequestContext:
        return replace(self, client_id=client_id)

    def using(self, software_name: str, software_version: str) -> RequestContext:
        return replace(self, software_name=software_name, software_version=software_version)

    def authenticated(self, principal: Principal) -> RequestContext:
        return replace(self, principal=principal)

    def unprivileged(self) -> RequestContext:
        """For a client that has authenticated where brokers are served, and is none of them."""
        return replace(self, is_privileged=False)

    def disconnected(self) -> RequestContext:
        """For a connection that is closed: the two must not refer to each other any longer."""
        return replace(self, connection=None)


def of_connection(
    connection: ClientConnection, listener: str, host: str, *, is_privileged: bool
) -> RequestContext:
    """The context of a client that has just connected."""
    return RequestContext(ANONYMOUS, listener, host, connection=connection, is_privileged=is_privileged)


def of_envelope(principal: Principal, listener: str, host: str, client_id: str | None) -> RequestContext:
    """The context of a client whose request another broker has forwarded (KIP-590)."""
    return RequestContext(principal, listener, host, client_id, is_forwarded=True)


SELF = RequestContext(BROKER, "", "localhost", client_id="broker", is_privileged=True)
"""The context of requests that a broker sends to itself."""
