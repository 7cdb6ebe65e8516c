"""Access control lists as the cluster keeps them: Kafka's AclBinding."""

from __future__ import annotations

from enum import IntEnum

import msgspec


class PatternType(IntEnum):
    """How the name of a resource is meant; Kafka's own numbers. ANY and MATCH are for filters only."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Kafka's own numbers (`AclPermissionType`)."""

    DENY = 2
    ALLOW = 3


WILDCARD = "*"
"""As the literal name of a resource: every resource of the type. As a host: every host."""

EVERYONE = "User:*"

ALL_OPERATIONS = 2
"""As the operation of an ACL: every operation that the resource knows. Kafka's own number."""


class AclBinding(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A principal may, or may not, do something from a host with the resources that a pattern names."""

    resource_type: int
    name: str
    pattern_type: int
    principal: str
    """As `User:alice`."""
    host: str
    """An address, a network such as 10.0.0.0/8 (KIP-1276), or WILDCARD."""
    operation: int
    permission: int
