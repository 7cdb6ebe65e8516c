"""What a user says of a syslog source; the same names on the command line and in agent.yml."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from barnabas.client.addresses import Address, parse_address
from barnabas.records.record import Header
from barnabas.security.tls.of_files import check_files

DEFAULT_LISTEN = "127.0.0.1:5514"
SMALLEST_MOST = 480
Transport = Literal["udp", "tcp", "tls"]
_TRANSPORTS: tuple[Transport, ...] = ("udp", "tcp", "tls")


class Endpoint(NamedTuple):
    transport: Transport
    address: Address

    def __str__(self) -> str:
        return f"{self.transport}://{self.address}"


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


def endpoints_of(settings: SyslogSettings) -> list[Endpoint]:
    """ValueError or SecuritySettingError with a sentence for what cannot be meant."""
    check_files(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
    if settings.max_message_bytes < SMALLEST_MOST:
        raise ValueError(
            f"max_message_bytes is at least {SMALLEST_MOST}, which every receiver must take (RFC 5424)"
        )
    if settings.connections < 1 or settings.idle_timeout <= 0:
        raise ValueError("connections and idle_timeout are more than 0")
    texts = [settings.listen] if isinstance(settings.listen, str) else settings.listen
    found = [
        endpoint for text in texts for endpoint in _endpoints(text, settings.tls_certificate is not None)
    ]
    if not found:
        raise ValueError(f"nothing to listen on; write HOST:PORT, for example {DEFAULT_LISTEN}")
    if settings.tls_certificate is None and any(each.transport == "tls" for each in found):
        raise ValueError(
            "TLS needs a certificate: give tls_certificate, and tls_key if the key is in another file"
        )
    return found


def _endpoints(text: str, has_certificate: bool) -> list[Endpoint]:
    scheme, separator, _ = text.partition("://")
    address = parse_address(text)
    if not separator:
        transports: tuple[Transport, ...] = ("tls",) if has_certificate else ("udp", "tcp")
        return [Endpoint(transport, address) for transport in transports]
    for transport in _TRANSPORTS:
        if scheme.lower() == transport:
            return [Endpoint(transport, address)]
    raise ValueError(f"{text!r}: syslog is listened to with udp://, tcp:// or tls://, not {scheme}://")
