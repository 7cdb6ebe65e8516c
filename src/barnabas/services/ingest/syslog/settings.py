"""What a user says of a syslog source; the same names on the command line and in agent.yml."""

from __future__ import annotations

from typing import Literal

import msgspec

from barnabas.records.record import Header

DEFAULT_LISTEN = "127.0.0.1:5514"


class SyslogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: str
    listen: str | list[str] = DEFAULT_LISTEN
    """`HOST:PORT` is UDP and TCP there, or TLS if there is a certificate; `udp://`, `tcp://` and `tls://` say which."""
    format: Literal["json", "raw"] = "json"
    key: str | None = None
    """None: the host that the message names, or the address that it came from."""
    headers: tuple[Header, ...] = ()
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    """Clients need a certificate that is signed by this authority."""
    max_message_bytes: int = 64 * 1024
    connections: int = 500
    idle_timeout: float = 3600.0
    """Seconds. rsyslog loses a message when a connection is closed under it, so this is long."""
    compression: str = "none"
