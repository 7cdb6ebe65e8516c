"""Bootstrap addresses: `host:port,host:port`, IPv6 in brackets."""

from __future__ import annotations

from typing import NamedTuple

DEFAULT_PORT = 9092


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_addresses(text: str) -> list[Address]:
    """Parse bootstrap servers; ValueError with a message for the user."""
    addresses = [parse_address(part.strip()) for part in text.split(",") if part.strip()]
    if not addresses:
        raise ValueError("no bootstrap server given; write HOST:PORT, for example 127.0.0.1:9092")
    return addresses


def parse_address(text: str) -> Address:
    if text.isdecimal():
        raise ValueError(f"{text!r} is a port without a host; write HOST:PORT, for example 127.0.0.1:{text}")
    host, port = _split(text.partition("://")[2] or text)
    if not host:
        raise ValueError(f"{text!r} has no host name; write HOST:PORT, for example 127.0.0.1:9092")
    if not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise ValueError(f"{text!r} has no valid port; write HOST:PORT with a port from 0 to 65535")
    return Address(host, int(port))


def _split(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":") or str(DEFAULT_PORT)
    host, colon, port = text.rpartition(":")
    if not colon or ":" in host:  # no port, or a bare IPv6 address
        return text, str(DEFAULT_PORT)
    return host, port
