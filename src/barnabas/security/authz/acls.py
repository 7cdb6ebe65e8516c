"""Access control lists as stored in the cluster metadata: Kafka's AclBinding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import msgspec

from barnabas.security.authz.authorizer import Operation, ResourceType


class PatternType(IntEnum):
    """Kafka's numbers (`PatternType`). ANY and MATCH are for filters only."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Kafka's numbers (`AclPermissionType`)."""

    DENY = 2
    ALLOW = 3


WILDCARD = "*"
"""As the literal name of a resource: every resource of the type. As a host: every host."""

EVERYONE = "User:*"

ALL_OPERATIONS = 2
"""As the operation of an ACL: every operation on the resource (Kafka's number)."""


class AclBinding(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Allows or denies a principal an operation, from a host, on the resources that a pattern matches."""

    resource_type: int
    name: str
    pattern_type: int
    principal: str
    """As `User:alice`."""
    host: str
    """An address, a network such as 10.0.0.0/8 (KIP-1276), or WILDCARD."""
    operation: int
    permission: int


def allowing(user: str, rights: Mapping[tuple[ResourceType, str], Sequence[Operation]]) -> list[AclBinding]:
    """ACLs that grant a user these rights from all hosts; each name is a literal resource name or WILDCARD."""
    return [
        AclBinding(kind, name, PatternType.LITERAL, f"User:{user}", WILDCARD, operation, Permission.ALLOW)
        for (kind, name), operations in rights.items()
        for operation in operations
    ]


# Operations per resource type: Kafka's AclEntry.supportedOperations.
_OF_TOPIC_AND_CLUSTER = (
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
OF_TOPIC = (*_OF_TOPIC_AND_CLUSTER, Operation.READ, Operation.WRITE, Operation.DELETE)
OF_GROUP = (
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
OF_CLUSTER = (*_OF_TOPIC_AND_CLUSTER, Operation.CLUSTER_ACTION, Operation.IDEMPOTENT_WRITE)
SUPPORTED: Mapping[ResourceType, Sequence[Operation]] = {
    ResourceType.TOPIC: OF_TOPIC,
    ResourceType.GROUP: OF_GROUP,
    ResourceType.CLUSTER: OF_CLUSTER,
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}


# -- Hosts of ACLs: an address, a network such as 10.0.0.0/8 (KIP-1276), or every host -----------------

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

EVERY_HOST = None
HostPattern = Network | str | None
"""A network (of one address or more), a string that is compared exactly, or EVERY_HOST."""


@lru_cache(4096)
def host_pattern(text: str) -> HostPattern:
    """Parse a host. Never fails: a string that is neither address nor network is compared exactly, as by Kafka."""
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
    """Parse a client's address; None if it is not one, such as the host of this broker's requests."""
    try:
        return _address(host)
    except ValueError:
        return None


def _address(text: str) -> Address:
    address = ip_address(text.partition("%")[0])  # link-local addresses end with %INTERFACE
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
    """True if an ACL for this host can match. Host names never do: clients are identified by address."""
    return not isinstance(host_pattern(text), str)
