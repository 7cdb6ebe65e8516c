"""Kafka's AclBindingFilter, and validation of new ACL bindings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.security.authz.acls import ALL_OPERATIONS, WILDCARD, AclBinding, PatternType, Permission
from barnabas.security.authz.authorizer import CLUSTER_NAME, Operation, ResourceType

ANY = 1
"""In a filter: every resource type, operation or permission."""

_RESOURCE_TYPES = frozenset(ResourceType)
_OPERATIONS = frozenset({ALL_OPERATIONS, *Operation})
_STORED_PATTERNS = frozenset({PatternType.LITERAL, PatternType.PREFIXED})
_PERMISSIONS = frozenset(Permission)
_FILTERED_TYPES = _RESOURCE_TYPES | {ANY}
_FILTERED_PATTERNS = frozenset(PatternType)
_FILTERED_OPERATIONS = _OPERATIONS | {ANY}
_FILTERED_PERMISSIONS = _PERMISSIONS | {ANY}


class AclFilter(NamedTuple):
    """None and ANY match everything. `pattern_type` MATCH selects all ACLs that apply to the named resource."""

    resource_type: int = ANY
    name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY

    def matches(self, acl: AclBinding) -> bool:
        return bool(self.select((acl,)))

    def select(self, acls: Iterable[AclBinding]) -> list[AclBinding]:
        """Return the matching ACLs. Checks the most selective condition first: there may be thousands of ACLs."""
        matching = acls
        if self.name is not None and self.pattern_type != PatternType.MATCH:
            matching = [acl for acl in matching if acl.name == self.name]
        if self.principal is not None:
            matching = [acl for acl in matching if acl.principal == self.principal]
        if self.resource_type != ANY:
            matching = [acl for acl in matching if acl.resource_type == self.resource_type]
        if self.operation != ANY:
            matching = [acl for acl in matching if acl.operation == self.operation]
        if self.permission != ANY:
            matching = [acl for acl in matching if acl.permission == self.permission]
        if self.host is not None:
            matching = [acl for acl in matching if acl.host == self.host]
        return (
            [acl for acl in matching if self._matches_pattern(acl)] if self._has_pattern else list(matching)
        )

    @property
    def _has_pattern(self) -> bool:
        return self.name is not None or self.pattern_type not in (PatternType.ANY, PatternType.MATCH)

    def _matches_pattern(self, acl: AclBinding) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name == WILDCARD

    def check(self) -> None:
        """Raise KafkaError for unknown values of a future Kafka: such a filter could delete the wrong ACLs."""
        if self.resource_type not in _FILTERED_TYPES or self.pattern_type not in _FILTERED_PATTERNS:
            raise _invalid("Unknown patternFilter.")
        if self.operation not in _FILTERED_OPERATIONS or self.permission not in _FILTERED_PERMISSIONS:
            raise _invalid("Unknown entryFilter.")


def check_binding(acl: AclBinding) -> None:
    """Raise KafkaError for an invalid binding; texts and order of the checks are Kafka's."""
    if acl.resource_type == ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.name:
        raise _invalid("Invalid empty resource name")
    if acl.resource_type not in _RESOURCE_TYPES:
        raise _invalid(f"Invalid resourceType {_any_or_unknown(acl.resource_type)}")
    if acl.pattern_type not in _STORED_PATTERNS:
        name = "MATCH" if acl.pattern_type == PatternType.MATCH else _any_or_unknown(acl.pattern_type)
        raise _invalid(f"Invalid patternType {name}")
    if acl.operation not in _OPERATIONS:
        raise _invalid(f"Invalid operation {_any_or_unknown(acl.operation)}")
    if acl.permission not in _PERMISSIONS:
        raise _invalid(f"Invalid permissionType {_any_or_unknown(acl.permission)}")
    if ":" not in acl.principal:
        raise _invalid(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )


def _any_or_unknown(number: int) -> str:
    return "ANY" if number == ANY else "UNKNOWN"


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
