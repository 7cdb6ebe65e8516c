"""Access control lists as the cluster keeps them: Kafka's AclBinding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

import msgspec

from barnabas.security.authz.authorizer import Operation, ResourceType


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


def allowing(user: str, rights: Mapping[tuple[ResourceType, str], Sequence[Operation]]) -> list[AclBinding]:
    """What lets a user do this from everywhere; a name is that of one resource, or WILDCARD."""
    return [
        AclBinding(kind, name, PatternType.LITERAL, f"User:{user}", WILDCARD, operation, Permission.ALLOW)
        for (kind, name), operations in rights.items()
        for operation in operations
    ]


# What can be allowed on which resource: Kafka's AclEntry.supportedOperations.
_OF_BOTH = (
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
OF_TOPIC = (*_OF_BOTH, Operation.READ, Operation.WRITE, Operation.DELETE)
OF_GROUP = (
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
OF_CLUSTER = (*_OF_BOTH, Operation.CLUSTER_ACTION, Operation.IDEMPOTENT_WRITE)
SUPPORTED: Mapping[ResourceType, Sequence[Operation]] = {
    ResourceType.TOPIC: OF_TOPIC,
    ResourceType.GROUP: OF_GROUP,
    ResourceType.CLUSTER: OF_CLUSTER,
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
