"""ACLs: syntax, creation, listing and deletion. A request that a broker rejects raises KafkaError."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from barnabas.client.cluster import Client, raise_for
from barnabas.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from barnabas.security.authz import CLUSTER_NAME, AclFilter, Operation, ResourceType
from barnabas.security.authz.acls import (
    ALL_OPERATIONS,
    SUPPORTED,
    WILDCARD,
    AclBinding,
    PatternType,
    Permission,
    is_valid_host,
)

# -- ACL syntax: `allow User:alice read,write --topic 'orders.*'` ---------------------------------------

ALL = "all"
WORDS: dict[str, int] = {ALL: ALL_OPERATIONS} | {
    each.name.lower().replace("_", "-"): each.value for each in Operation
}


class AclSyntaxError(ValueError):
    """Invalid ACL; `field` names the invalid input, if known."""

    def __init__(self, text: str, field: str = "") -> None:
        super().__init__(text)
        self.field = field


class Pattern(NamedTuple):
    resource_type: ResourceType
    name: str
    pattern_type: PatternType


def pattern(resource_type: ResourceType, text: str) -> Pattern:
    """`orders.*` is the prefix `orders.`; `*` alone matches every name."""
    if text.endswith(WILDCARD) and text != WILDCARD:
        return Pattern(resource_type, text.removesuffix(WILDCARD), PatternType.PREFIXED)
    return Pattern(resource_type, text, PatternType.LITERAL)


def patterns(
    topics: Iterable[str] | None,
    groups: Iterable[str] | None,
    transactional_ids: Iterable[str] | None,
    users: Iterable[str] | None,
    *,
    cluster: bool,
) -> list[Pattern]:
    named = (
        (ResourceType.TOPIC, topics),
        (ResourceType.GROUP, groups),
        (ResourceType.TRANSACTIONAL_ID, transactional_ids),
        (ResourceType.USER, users),
    )
    found = [pattern(kind, name) for kind, names in named for name in names or ()]
    return [*found, Pattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)] if cluster else found


def check_principal(text: str) -> str:
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise AclSyntaxError(f"{text!r} is not a valid principal: write User:alice, or User:* for everyone")
    return text


def check_hosts(hosts: Iterable[str] | None) -> list[str]:
    wanted = list(hosts or [WILDCARD])
    for host in wanted:
        if not is_valid_host(host):
            raise AclSyntaxError(
                f"{host!r} is not a valid host: write an address (10.0.0.1) or a network (10.0.0.0/8)",
                "host",
            )
    return wanted


def operations(text: str) -> list[int]:
    """Operation codes of `read,write`."""
    words = [word.strip().lower().replace("_", "-") for word in text.split(",") if word.strip()]
    unknown = [word for word in words if word not in WORDS]
    if unknown or not words:
        raise AclSyntaxError(
            f"{', '.join(unknown) or 'nothing'} is not a valid operation; valid: {', '.join(WORDS)}"
        )
    return [WORDS[word] for word in words]


def bindings(
    principal: str, wanted: Sequence[int], on: Sequence[Pattern], hosts: Sequence[str], permission: Permission
) -> list[AclBinding]:
    """One binding per operation and resource that supports it. AclSyntaxError if no resource supports an operation."""
    if not on:
        raise AclSyntaxError(
            "a resource is required: --topic, --group, --transactional-id, --user or --cluster"
        )
    for operation in wanted:
        if not any(_fits(operation, each) for each in on):
            kinds = ", ".join(sorted({each.resource_type.name.lower() for each in on}))
            raise AclSyntaxError(f"{operation_word(operation)} is not an operation on {kinds}")
    return [
        AclBinding(*each, principal, host, operation, permission)
        for each in on
        for host in hosts
        for operation in wanted
        if _fits(operation, each)
    ]


def _fits(operation: int, on: Pattern) -> bool:
    return operation == ALL_OPERATIONS or operation in SUPPORTED[on.resource_type]


def operation_word(number: int) -> str:
    return next((word for word, value in WORDS.items() if value == number), f"operation {number}")


def row(acl: AclBinding) -> dict[str, Any]:
    """The binding as a row, for tables and JSON."""
    name = f"{acl.name}*" if acl.pattern_type == PatternType.PREFIXED else acl.name
    return {
        "permission": "allow" if acl.permission == Permission.ALLOW else "deny",
        "principal": acl.principal,
        "operation": operation_word(acl.operation),
        "resource": ResourceType(acl.resource_type).name.lower().replace("_", "-"),
        "name": name,
        "pattern": "prefixed" if acl.pattern_type == PatternType.PREFIXED else "literal",
        "host": acl.host,
    }


async def describe_acls(client: Client, wanted: AclFilter) -> list[AclBinding]:
    response: DescribeAclsResponse = await client.send_to_any(DescribeAclsRequest(*wanted))
    raise_for(response.error_code, response.error_message or "")
    return sorted(
        AclBinding(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for resource in response.resources
        for acl in resource.acls
    )


async def create_acls(client: Client, wanted: Iterable[AclBinding]) -> None:
    """Create bindings; existing ones are kept."""
    creations = [
        AclCreation(
            acl.resource_type,
            acl.name,
            acl.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission,
        )
        for acl in wanted
    ]
    response: CreateAclsResponse = await client.send_to_controller(CreateAclsRequest(creations))
    for result in response.results:
        raise_for(result.error_code, result.error_message or "")


async def delete_acls(client: Client, filters: Iterable[AclFilter]) -> list[AclBinding]:
    """Delete the matching bindings and return them."""
    request = DeleteAclsRequest([DeleteAclsFilter(*each) for each in filters])
    response: DeleteAclsResponse = await client.send_to_controller(request)
    for result in response.filter_results:
        raise_for(result.error_code, result.error_message or "")
    removed = (acl for result in response.filter_results for acl in result.matching_acls)
    return sorted(
        {
            AclBinding(
                acl.resource_type,
                acl.resource_name,
                acl.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            for acl in removed
        }
    )
