"""Effective permissions of a principal, evaluated with the brokers' authorization rules."""

from __future__ import annotations

import msgspec

from barnabas.client.access import (
    AclSnapshot,
    AclSyntaxError,
    action_of,
    because,
    check_principal,
    judge_of,
    operation_word,
)
from barnabas.client.groups import list_groups
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.security.authz import CLUSTER_NAME, Operation, ResourceType
from barnabas.security.authz.acls import SUPPORTED
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BadInputError
from barnabas.services.console.needs import cluster
from barnabas.services.console.routes import Routes

routes = Routes()

MAX_SHOWN = 200


class MayQuery(msgspec.Struct):
    principal: str = ""
    host: str = "127.0.0.1"
    operation: str = ""
    resource: str = "topic"
    name: str = ""
    q: str = ""
    """Only resources whose name contains this text."""


class PermissionCheck(msgspec.Struct):
    """Result of one permission check."""

    allowed: bool
    because: str


class Allowed(msgspec.Struct):
    resource: str
    name: str
    operations: list[str]


class MayPage(msgspec.Struct):
    principal: str
    enabled: bool
    shows_super_users: bool
    is_super_user: bool
    answer: PermissionCheck | None
    allowed: list[Allowed]
    """Allowed operations on the cluster and on existing topics and groups."""
    more: int
    operations: list[str]
    resources: list[str]


@routes.page(
    "/access/may",
    needs=cluster(Operation.DESCRIBE) & cluster(Operation.DESCRIBE_CONFIGS),
    template="access/may.html",
)
async def show_may(context: RequestScope, query: MayQuery) -> MayPage:
    """Effective permissions of a principal, and the deciding rule."""
    operations = [operation_word(each) for each in Operation]
    kinds = [_word(each) for each in SUPPORTED]
    page = MayPage(query.principal, True, True, False, None, [], 0, operations, kinds)
    if not query.principal:
        return page
    try:
        principal = check_principal(query.principal)
        judge = await judge_of(context.client)
    except AclSyntaxError as error:
        raise BadInputError(str(error), "principal") from None
    except KafkaError as error:
        if error.code is not ErrorCode.SECURITY_DISABLED:
            raise
        page.enabled = False
        return page
    page.shows_super_users = judge.shows_super_users
    page.is_super_user = principal in judge.policy.super_users
    page.answer = _answer(judge, query) if query.operation else None
    found = await _resources(context, query.q)
    page.allowed = [row for each in found[:MAX_SHOWN] if (row := _allowed(judge, query, *each)).operations]
    page.more = max(0, len(found) - MAX_SHOWN)
    return page


def _answer(judge: AclSnapshot, query: MayQuery) -> PermissionCheck:
    try:
        action = action_of(query.operation, query.resource, query.name or None)
    except AclSyntaxError as error:
        raise BadInputError(str(error), error.field or "name") from None
    verdict = judge.verdict(query.principal, query.host, action)
    return PermissionCheck(verdict.is_allowed, because(verdict, action))


def _allowed(judge: AclSnapshot, query: MayQuery, kind: ResourceType, name: str) -> Allowed:
    operations = judge.operations(query.principal, query.host, kind, name)
    return Allowed(_word(kind), name, [operation_word(each) for each in operations])


async def _resources(context: RequestScope, part: str) -> list[tuple[ResourceType, str]]:
    """Return the cluster, topics and groups that the user may see."""
    topics = list((await context.client.refresh(None)).topics)
    seen = await context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topics)
    groups = [each.group_id for _, each in await list_groups(context.client)]
    members = await context.allowed(Operation.DESCRIBE, ResourceType.GROUP, groups)
    named = [(ResourceType.TOPIC, name) for name in sorted(seen)]
    named += [(ResourceType.GROUP, name) for name in sorted(members)]
    fitting = [each for each in named if part.lower() in each[1].lower()]
    return [(ResourceType.CLUSTER, CLUSTER_NAME), *fitting]


def _word(kind: ResourceType) -> str:
    return kind.name.lower().replace("_", "-")
