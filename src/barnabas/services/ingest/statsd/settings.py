"""What a user says of a statsd source; the same names on the command line and in agent.yml."""

from __future__ import annotations

import msgspec

from barnabas.records.record import Header

DEFAULT_LISTEN = "127.0.0.1:8125"


class StatsdSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: str
    host: str
    listen: str | list[str] = DEFAULT_LISTEN
    every: float = 10.0
    key: str | None = None
    """None: the name that was measured."""
    headers: tuple[Header, ...] = ()
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    max_message_bytes: int = 64 * 1024
    connections: int = 500
    idle_timeout: float = 3600.0
    compression: str = "none"
