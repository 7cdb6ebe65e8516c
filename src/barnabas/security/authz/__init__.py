"""Authorization: ACLs, the standard authorizer, the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.security.authz.acl_filters import ANY as ANY
    from barnabas.security.authz.acl_filters import AclFilter as AclFilter
    from barnabas.security.authz.acl_filters import check_binding as check_binding
    from barnabas.security.authz.acl_index import NO_ACLS as NO_ACLS
    from barnabas.security.authz.acl_index import AclIndex as AclIndex
    from barnabas.security.authz.audit import TOPIC as TOPIC
    from barnabas.security.authz.audit import AuditedAccess as AuditedAccess
    from barnabas.security.authz.audit import AuditFile as AuditFile
    from barnabas.security.authz.audit import AuditLog as AuditLog
    from barnabas.security.authz.audit import AuditPolicy as AuditPolicy
    from barnabas.security.authz.audit import Event as Event
    from barnabas.security.authz.audit import Selection as Selection
    from barnabas.security.authz.audit import lines_of as lines_of
    from barnabas.security.authz.authorizer import ALLOW_ALL as ALLOW_ALL
    from barnabas.security.authz.authorizer import CLUSTER_NAME as CLUSTER_NAME
    from barnabas.security.authz.authorizer import DENIAL_TEXTS as DENIAL_TEXTS
    from barnabas.security.authz.authorizer import DENIED as DENIED
    from barnabas.security.authz.authorizer import FULL_ACCESS as FULL_ACCESS
    from barnabas.security.authz.authorizer import Access as Access
    from barnabas.security.authz.authorizer import Action as Action
    from barnabas.security.authz.authorizer import Authorizer as Authorizer
    from barnabas.security.authz.authorizer import Operation as Operation
    from barnabas.security.authz.authorizer import ResourceType as ResourceType
    from barnabas.security.authz.standard_authorizer import AclDecision as AclDecision
    from barnabas.security.authz.standard_authorizer import Policy as Policy
    from barnabas.security.authz.standard_authorizer import StandardAuthorizer as StandardAuthorizer
    from barnabas.security.authz.standard_authorizer import decide as decide
else:
    __getattr__ = lazy_exports(__name__)
