"""Random ACLs and requests, with a rule-by-rule reference of decisions."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address, ip_network

from hypothesis import strategies as st

from barnabas.security.authz.acls import ALL_OPERATIONS, EVERYONE, AclBinding, PatternType, Permission
from barnabas.security.authz.authorizer import Action, Operation, ResourceType

ALICE, BOB = "User:alice", "User:bob"
HOSTS = ("10.0.0.1", "10.0.1.1", "::1")
NAMES = ("a", "ab", "abc", "b", "hardcode")

_OPERATIONS = (
    Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALTER, Operation.DELETE, Operation.CREATE,
    Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS,
)  # fmt: skip

bindings = st.builds(
    AclBinding,
    st.sampled_from((ResourceType.TOPIC, ResourceType.GROUP)),
    st.sampled_from((*NAMES, "*")),
    st.sampled_from((PatternType.LITERAL, PatternType.LITERAL, PatternType.PREFIXED)),
    st.sampled_from((ALICE, BOB, EVERYONE)),
    st.sampled_from((*HOSTS, "*", "*", "10.0.0.0/24", "10.0.0.0/8")),
    st.sampled_from((*_OPERATIONS, ALL_OPERATIONS)),
    st.sampled_from((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
)
acl_sets = st.frozensets(bindings, max_size=8)
actions = st.builds(
    Action,
    st.sampled_from(_OPERATIONS),
    st.sampled_from((ResourceType.TOPIC, ResourceType.GROUP)),
    st.sampled_from(NAMES),
)
principals = st.sampled_from((ALICE, BOB))
hosts = st.sampled_from(HOSTS)


def on_resource(acls: Iterable[AclBinding], action: Action) -> list[AclBinding]:
    return [
        acl
        for acl in acls
        if acl.resource_type == action.resource_type
        and (
            action.name.startswith(acl.name)
            if acl.pattern_type == PatternType.PREFIXED
            else acl.name in (action.name, "*")
        )
    ]


def is_about(acl: AclBinding, principal: str, host: str, operation: int) -> bool:
    implying = {operation}
    if acl.permission == Permission.ALLOW and operation == Operation.DESCRIBE:
        implying |= {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    if acl.permission == Permission.ALLOW and operation == Operation.DESCRIBE_CONFIGS:
        implying |= {Operation.ALTER_CONFIGS}
    return (
        acl.principal in (principal, EVERYONE)
        and (acl.host == "*" or ip_address(host) in ip_network(acl.host))
        and (acl.operation == ALL_OPERATIONS or acl.operation in implying)
    )


def is_allowed(
    acls: Iterable[AclBinding], principal: str, host: str, action: Action, *, if_none: bool = False
) -> bool:
    of_resource = on_resource(acls, action)
    about = [acl for acl in of_resource if is_about(acl, principal, host, action.operation)]
    if not of_resource:
        return if_none
    return bool(about) and all(acl.permission == Permission.ALLOW for acl in about)
