"""Kafka's RequestContext: principal, address, listener and client id of the sender of a request.

Each connection has one, and its requests refer to it. Contexts are immutable: when the client authenticates or changes
its client id, the connection gets a new one, and requests in flight keep the context they arrived with.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from barnabas.protocol.framing import PEER_CLIENT_ID
from barnabas.security.principal import ANONYMOUS, BROKER, Principal


class ClientConnection(Protocol):
    """The connection of a context, as far as the context needs it."""

    @property
    def closed(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Sender of a request: a client, this broker itself, or a client whose request another broker forwarded."""

    principal: Principal
    listener: str
    host: str
    client_id: str | None = None
    software_name: str = ""
    software_version: str = ""
    connection: ClientConnection | None = field(default=None, compare=False, repr=False)
    """None for requests of this broker and for forwarded ones, whose client is connected to another broker."""
    is_privileged: bool = False
    """True if the request arrived on a listener that admits only brokers of the cluster (decision 0021)."""
    is_forwarded: bool = False
    """True if another broker forwarded the request in an Envelope; the client is connected there."""

    @property
    def is_peer(self) -> bool:
        """True for a broker of the cluster: a privileged context with the client id of a peer."""
        return self.is_privileged and (self.client_id or "").startswith(PEER_CLIENT_ID)

    def named(self, client_id: str | None) -> RequestContext:
        return replace(self, client_id=client_id)

    def using(self, software_name: str, software_version: str) -> RequestContext:
        return replace(self, software_name=software_name, software_version=software_version)

    def authenticated(self, principal: Principal) -> RequestContext:
        return replace(self, principal=principal)

    def unprivileged(self) -> RequestContext:
        """Return the context of an authenticated client on the brokers' listener that is not a broker."""
        return replace(self, is_privileged=False)

    def disconnected(self) -> RequestContext:
        """Return the context without its connection, to break the reference cycle when the connection closes."""
        return replace(self, connection=None)


def of_connection(
    connection: ClientConnection, listener: str, host: str, *, is_privileged: bool
) -> RequestContext:
    """Return the context of a client that has just connected."""
    return RequestContext(ANONYMOUS, listener, host, connection=connection, is_privileged=is_privileged)


def of_envelope(principal: Principal, listener: str, host: str, client_id: str | None) -> RequestContext:
    """Return the context of a client whose request another broker forwarded (KIP-590)."""
    return RequestContext(principal, listener, host, client_id, is_forwarded=True)


SELF = RequestContext(BROKER, "", "localhost", client_id="broker", is_privileged=True)
"""Context of requests that a broker sends to itself."""
