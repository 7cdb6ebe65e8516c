"""Authorization: ACLs, the standard authorizer, the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.security.authz.acl_filters import ANY, AclFilter, check_binding
    from barnabas.security.authz.acl_index import NO_ACLS, AclIndex
    from barnabas.security.authz.audit import (
        TOPIC,
        AuditedAccess,
        AuditFile,
        AuditLog,
        AuditPolicy,
        Event,
        Selection,
        lines_of,
    )
    from barnabas.security.authz.authorizer import (
        ALLOW_ALL,
        CLUSTER_NAME,
        DENIAL_TEXTS,
        DENIED,
        Access,
        Action,
        Authorizer,
        Operation,
        ResourceType,
    )
    from barnabas.security.authz.standard_authorizer import AclDecision, Policy, StandardAuthorizer, judge
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "acl_filters": "ANY AclFilter check_binding",
            "acl_index": "AclIndex NO_ACLS",
            "audit": "AuditFile AuditLog AuditPolicy AuditedAccess Event Selection TOPIC lines_of",
            "authorizer": "ALLOW_ALL Access Action Authorizer CLUSTER_NAME DENIAL_TEXTS DENIED Operation ResourceType",
            "standard_authorizer": "AclDecision Policy StandardAuthorizer judge",
        },
    )

__all__ = [
    "ALLOW_ALL",
    "ANY",
    "CLUSTER_NAME",
    "DENIAL_TEXTS",
    "DENIED",
    "NO_ACLS",
    "TOPIC",
    "Access",
    "AclDecision",
    "AclFilter",
    "AclIndex",
    "Action",
    "AuditFile",
    "AuditLog",
    "AuditPolicy",
    "AuditedAccess",
    "Authorizer",
    "Event",
    "Operation",
    "Policy",
    "ResourceType",
    "Selection",
    "StandardAuthorizer",
    "check_binding",
    "judge",
    "lines_of",
]
