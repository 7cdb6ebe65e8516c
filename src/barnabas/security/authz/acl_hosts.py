"""Hosts of ACLs: an address, a network such as 10.0.0.0/8 (KIP-1276), or every host.

Kafka compares texts, as Java prints addresses. Addresses are compared here as what they are, so that `::1` and
`0:0:0:0:0:0:0:1` are one host, and a client that came over IPv6 with an IPv4 address has the rights of that address.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from barnabas.security.authz.acls import WILDCARD

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

EVERY_HOST = None
HostPattern = Network | str | None
"""What a host is compared with: a network (of one address or more), another text as it is, or EVERY_HOST."""


@lru_cache(4096)
def host_pattern(text: str) -> HostPattern:
    """Never fails: what is neither address nor network is compared as text, as by Kafka."""
    if text == WILDCARD:
        return EVERY_HOST
    try:
        if "/" in text:
            return ip_network(text, strict=False)
        return ip_network(_address(text))
    except ValueError:
        return text


@lru_cache(4096)
def client_address(host: str) -> Address | None:
    """The address of a client; None for what is none, such as the host of our own requests."""
    try:
        return _address(host)
    except ValueError:
        return None


def _address(text: str) -> Address:
    address = ip_address(text.partition("%")[0])  # behind the sign is the interface of a link-local address
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def matches(pattern: HostPattern, host: str) -> bool:
    if pattern is EVERY_HOST:
        return True
    if isinstance(pattern, str):
        return pattern == host
    address = client_address(host)
    return address is not None and address in pattern


def is_valid_host(text: str) -> bool:
    """May an ACL be about this host? A name never matches: clients are known by their addresses."""
    return not isinstance(host_pattern(text), str)
