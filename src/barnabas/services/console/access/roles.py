"""Roles as sets of ACL operations, evaluated by the brokers' authorizer.

Each role includes the previous one. Rights on topics, groups and transactional ids apply to the names of the grant. The
cluster has no name: a grant restricted to some names may view the cluster but not change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.security.authz import NO_ACLS, Action, Operation, Policy, ResourceType, decide
from barnabas.security.authz.acls import WILDCARD, AclBinding, PatternType, Permission
from barnabas.services.console.access.model import EVERY, Grant, MaskRule, Role, fits

# -- Masks of a topic's records, applied before a search matches anything (`services/console/scanning`) --


class Hidden(NamedTuple):
    """The combined mask of a topic."""

    fields: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    key: bool = False

    def __bool__(self) -> bool:
        return bool(self.fields or self.headers or self.key)


NOTHING = Hidden()


def hidden_of(rules: Iterable[MaskRule], cluster: str, topic: str) -> Hidden:
    """Combine all rules for a topic."""
    about = [each for each in rules if fits(cluster, each.clusters) and fits(topic, each.topics)]
    return Hidden(
        tuple(dict.fromkeys(field for each in about for field in each.fields)),
        tuple(dict.fromkeys(header for each in about for header in each.headers)),
        any(each.key for each in about),
    )


_ADDED: Mapping[Role, Mapping[ResourceType, tuple[Operation, ...]]] = {
    Role.VIEWER: {
        ResourceType.TOPIC: (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
        ResourceType.GROUP: (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
        ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE,),
        ResourceType.CLUSTER: (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
    },
    Role.READER: {ResourceType.TOPIC: (Operation.READ,)},
    Role.DEVELOPER: {
        ResourceType.TOPIC: (Operation.WRITE,),
        ResourceType.GROUP: (Operation.READ, Operation.DELETE),
        ResourceType.CLUSTER: (Operation.IDEMPOTENT_WRITE,),
    },
    Role.OPERATOR: {
        ResourceType.TOPIC: (
            Operation.CREATE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.ALTER_CONFIGS,
        ),
        ResourceType.GROUP: (Operation.ALTER_CONFIGS,),
        ResourceType.TRANSACTIONAL_ID: (Operation.WRITE,),
        ResourceType.CLUSTER: (Operation.CREATE, Operation.ALTER, Operation.ALTER_CONFIGS),
    },
    Role.ADMIN: {ResourceType.USER: (Operation.ALTER,)},
}
_ANYWHERE = "*"
_NO_POLICY = Policy()
_HARMLESS = (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.IDEMPOTENT_WRITE)


def rights_of(role: Role) -> list[tuple[ResourceType, Operation]]:
    """All rights of a role, including inherited ones."""
    return [
        (kind, operation)
        for each in Role
        if each <= role
        for kind, operations in _ADDED[each].items()
        for operation in operations
    ]


class Roles:
    """Rights of principals (`User:alice`, `Group:ops`, `Token:ci`) in one cluster."""

    def __init__(self, cluster: str, grants: Iterable[Grant], *, read_only: bool = False) -> None:
        limit = Role.READER if read_only else Role.ADMIN
        here = [each for each in grants if fits(cluster, each.clusters)]
        self._index = NO_ACLS.changed((), {acl for each in here for acl in _acls(each, limit)})

    def allow(self, principals: Iterable[str], action: Action) -> bool:
        return any(decide(_NO_POLICY, self._index, each, _ANYWHERE, action).is_allowed for each in principals)


def _acls(grant: Grant, limit: Role) -> list[AclBinding]:
    return [
        AclBinding(kind, name, pattern, principal, WILDCARD, operation, Permission.ALLOW)
        for kind, operation in rights_of(min(grant.role, limit))
        for name, pattern in _patterns(kind, operation, grant.names)
        for principal in grant.principals
    ]


def _patterns(
    kind: ResourceType, operation: Operation, names: tuple[str, ...]
) -> list[tuple[str, PatternType]]:
    if kind not in (ResourceType.CLUSTER, ResourceType.USER):
        return [_pattern(name) for name in names]
    is_for_all = operation in _HARMLESS or EVERY in names
    return [(WILDCARD, PatternType.LITERAL)] if is_for_all else []


def _pattern(name: str) -> tuple[str, PatternType]:
    if name.endswith(EVERY) and name != EVERY:
        return name.removesuffix(EVERY), PatternType.PREFIXED
    return name, PatternType.LITERAL
