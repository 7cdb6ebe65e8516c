"""Explain an authorization decision: the brokers' authorizer, run here on their ACLs and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.client import admin
from barnabas.client.access import acls as words
from barnabas.client.access.acls import AclSyntaxError, describe_acls
from barnabas.security.authz import (
    CLUSTER_NAME,
    NO_ACLS,
    AclDecision,
    AclFilter,
    AclIndex,
    Action,
    Operation,
    Policy,
    ResourceType,
    decide,
)
from barnabas.security.authz.acls import SUPPORTED, PatternType

if TYPE_CHECKING:
    from barnabas.client.cluster import Client

SUPER_USERS, OPEN = "super.users", "allow.everyone.if.no.acl.found"


async def explained(
    client: Client, principal: str, operation: str, kind: str, name: str | None, host: str
) -> dict[str, Any]:
    action = action_of(operation, kind, name)
    words.check_principal(principal)
    rules = await describe_acls(
        client,
        AclFilter(resource_type=action.resource_type, name=action.name, pattern_type=PatternType.MATCH),
    )
    verdict = decide(await _policy(client), NO_ACLS.changed((), rules), principal, host, action)
    return {
        "principal": principal,
        "operation": operation,
        "resource": kind,
        "name": action.name,
        "host": host,
        "allowed": verdict.is_allowed,
        "because": because(verdict, action),
        "rule": None if verdict.rule is None else words.row(verdict.rule),
    }


def action_of(operation: str, kind: str, name: str | None) -> Action:
    (number, *others) = words.operations(operation)
    kinds = {each.name.lower().replace("_", "-"): each for each in ResourceType}
    if others or number not in list(Operation):
        raise AclSyntaxError("exactly one operation is expected, for example read")
    if kind not in kinds:
        raise AclSyntaxError(f"{kind!r} is not one of {', '.join(kinds)}", "kind")
    if kinds[kind] is ResourceType.CLUSTER:
        return Action(Operation(number), ResourceType.CLUSTER, CLUSTER_NAME)
    if not name:
        raise AclSyntaxError(f"the name of the {kind} is missing")
    return Action(Operation(number), kinds[kind], name)


class AclSnapshot(NamedTuple):
    """Snapshot of all ACLs of a cluster."""

    policy: Policy
    rules: AclIndex
    shows_super_users: bool
    """Apache Kafka does not expose super.users."""

    def verdict(self, principal: str, host: str, action: Action) -> AclDecision:
        return decide(self.policy, self.rules, principal, host, action)

    def operations(self, principal: str, host: str, kind: ResourceType, name: str) -> list[Operation]:
        """Allowed operations."""
        return [
            each
            for each in SUPPORTED[kind]
            if self.verdict(principal, host, Action(each, kind, name)).is_allowed
        ]


async def judge_of(client: Client) -> AclSnapshot:
    rules = await describe_acls(client, AclFilter())
    found = await _settings(client)
    return AclSnapshot(_policy_of(found), NO_ACLS.changed((), rules), found.get(SUPER_USERS) is not None)


async def _policy(client: Client) -> Policy:
    return _policy_of(await _settings(client))


async def _settings(client: Client) -> dict[str, str | None]:
    """Authorizer settings of the broker that answers."""
    await client.refresh([])
    broker_id = min(client.metadata.brokers)
    return {
        each.name: each.value for each in await admin.describe_configs(client, admin.BROKER, str(broker_id))
    }


def _policy_of(found: dict[str, str | None]) -> Policy:
    users = frozenset(each.strip() for each in (found.get(SUPER_USERS) or "").split(";") if each.strip())
    return Policy(users, (found.get(OPEN) or "").lower() == "true")


def because(verdict: AclDecision, action: Action) -> str:
    if verdict.is_super_user:
        return "it is one of super.users, which are allowed everything"
    if verdict.rule is not None:
        row = words.row(verdict.rule)
        return (
            f"{row['principal']} is {'allowed' if row['permission'] == 'allow' else 'denied'} {row['operation']} on "
            f"{row['resource']} {row['name']} from {'any host' if row['host'] == '*' else row['host']}"
        )
    if not verdict.has_acls:
        setting = f"{OPEN}={'true' if verdict.is_allowed else 'false'}"
        return f"no ACL matches this {action.resource_type.name.lower()}, and {setting}"
    return "ACLs exist for this resource, and none of them allows it"
