"""Parse and validate listen addresses."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

from barnabas.client import Address, parse_address
from barnabas.security.tls import check_files

MIN_LIMIT = 480
Transport = Literal["udp", "tcp", "tls"]
_TRANSPORTS: tuple[Transport, ...] = ("udp", "tcp", "tls")


class SocketEndpoint(NamedTuple):
    transport: Transport
    address: Address

    def __str__(self) -> str:
        return f"{self.transport}://{self.address}"


class ListenSettings(Protocol):
    @property
    def listen(self) -> str | list[str]:
        """`HOST:PORT` means UDP and TCP, or TLS with a certificate; `udp://`, `tcp://` and `tls://` are explicit."""
        ...

    @property
    def tls_certificate(self) -> str | None: ...

    @property
    def tls_key(self) -> str | None: ...

    @property
    def tls_client_ca(self) -> str | None:
        """CA that must have signed the client certificates."""
        ...

    @property
    def max_message_bytes(self) -> int: ...

    @property
    def connections(self) -> int: ...

    @property
    def idle_timeout(self) -> float: ...


def endpoints_of(settings: ListenSettings) -> list[SocketEndpoint]:
    """Return the endpoints to bind; ValueError or SecuritySettingError for invalid settings."""
    check_files(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
    if settings.max_message_bytes < MIN_LIMIT:
        raise ValueError(
            f"max_message_bytes must be at least {MIN_LIMIT}, the minimum for receivers (RFC 5424)"
        )
    if settings.connections < 1 or settings.idle_timeout <= 0:
        raise ValueError("connections and idle_timeout must be greater than 0")
    texts = [settings.listen] if isinstance(settings.listen, str) else settings.listen
    found = [
        endpoint for text in texts for endpoint in _endpoints(text, settings.tls_certificate is not None)
    ]
    if not found:
        raise ValueError("nothing to listen on; write HOST:PORT, for example 127.0.0.1:5514")
    if settings.tls_certificate is None and any(each.transport == "tls" for each in found):
        raise ValueError(
            "TLS needs a certificate: set tls_certificate, and tls_key if the key is in another file"
        )
    return found


def _endpoints(text: str, has_certificate: bool) -> list[SocketEndpoint]:
    scheme, separator, _ = text.partition("://")
    address = parse_address(text)
    if not separator:
        transports: tuple[Transport, ...] = ("tls",) if has_certificate else ("udp", "tcp")
        return [SocketEndpoint(transport, address) for transport in transports]
    for transport in _TRANSPORTS:
        if scheme.lower() == transport:
            return [SocketEndpoint(transport, address)]
    raise ValueError(f"{text!r}: unknown scheme {scheme}://; use udp://, tcp:// or tls://")
