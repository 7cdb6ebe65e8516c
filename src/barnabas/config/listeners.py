"""Parser of `listeners` and `advertised.listeners`: `NAME://HOST:PORT`, separated by commas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.config.setting import ConfigError

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_FORM = re.compile(r"([A-Za-z0-9_-]+)://(?:\[([0-9a-fA-F:.%]+)\]|([A-Za-z0-9._-]*)):([0-9]{1,5})", re.ASCII)


class ListenerSpec(NamedTuple):
    name: str
    host: str
    """Empty for all interfaces."""
    port: int
    security_protocol: str

    @property
    def has_tls(self) -> bool:
        return self.security_protocol in ("SSL", "SASL_SSL")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_listeners(
    texts: str | Iterable[str], protocols: Mapping[str, str] | None = None, *, setting: str = "listeners"
) -> list[ListenerSpec]:
    """Parse the listeners of a setting; ConfigError if invalid. `protocols`: security protocol by listener name."""
    items = [text.strip() for text in texts.split(",")] if isinstance(texts, str) else list(texts)
    specs = [_parse_one(item, protocols, setting) for item in items if item]
    _check_distinct(specs, setting)
    return specs


def _parse_one(text: str, protocols: Mapping[str, str] | None, setting: str) -> ListenerSpec:
    match = _FORM.fullmatch(text)
    if match is None or int(match[4]) > 65535:
        raise ConfigError(
            f"Invalid value {text} for configuration {setting}: expected NAME://HOST:PORT, "
            "for example PLAINTEXT://127.0.0.1:9092; write an IPv6 address in brackets"
        )
    name = match[1].upper()
    return ListenerSpec(name, match[2] or match[3], int(match[4]), _protocol_of(name, protocols, setting))


def _protocol_of(name: str, protocols: Mapping[str, str] | None, setting: str) -> str:
    known = {protocol: protocol for protocol in SECURITY_PROTOCOLS} if protocols is None else protocols
    protocol = known.get(name)
    if protocol is None:
        raise ConfigError(
            f"No security protocol defined for listener {name} of {setting}: "
            f"add {name}:PLAINTEXT to listener.security.protocol.map"
        )
    return protocol


def _check_distinct(specs: list[ListenerSpec], setting: str) -> None:
    names = [spec.name for spec in specs]
    if len(set(names)) != len(names):
        raise ConfigError(
            f"Each listener of {setting} must have a different name, but the names are {', '.join(names)}"
        )
    if setting == "listeners":
        _check_ports(specs)


def _check_ports(specs: list[ListenerSpec]) -> None:
    """Refuse duplicate ports, except 0 (any free port), or one IPv4 and one IPv6 address with the same port."""
    used: set[tuple[int, bool]] = set()
    for spec in specs:
        port = (spec.port, ":" in spec.host)
        if spec.port != 0 and port in used:
            raise ConfigError(
                f"Each listener of listeners must have a different port, but {spec.port} is used twice"
            )
        used.add(port)


def parse_protocol_map(text: str) -> dict[str, str]:
    """Parse `listener.security.protocol.map`: security protocol by listener name in upper case."""
    protocols: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, protocol = (part.strip().upper() for part in item.partition(":"))
        if not name or protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(
                f"Invalid value {item} for configuration listener.security.protocol.map: expected NAME:PROTOCOL "
                f"with one of {', '.join(SECURITY_PROTOCOLS)}"
            )
        if name in protocols:
            raise ConfigError(f"listener.security.protocol.map contains {name} twice")
        protocols[name] = protocol
    return protocols
