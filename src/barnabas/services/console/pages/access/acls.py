"""ACLs of a cluster: search, add, remove."""

from __future__ import annotations

from typing import Literal

import msgspec

from barnabas.client.access import AclSyntaxError, create_acls, delete_acls, describe_acls
from barnabas.client.access import acls as words
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.security.authz import CLUSTER_NAME, AclFilter, Operation, ResourceType
from barnabas.security.authz.acls import AclBinding, PatternType, Permission
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BadInputError, StaleError
from barnabas.services.console.needs import ADMINISTER, administer, cluster
from barnabas.services.console.routes import ActionResult, NavigationEntry, Routes

# -- Forms are shown only to users who may submit them ----------------------------------------------


async def may_administer(context: RequestScope, operation: Operation) -> bool:
    return (
        not context.settings.read_only
        and await context.user.allows(ADMINISTER)
        and await context.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)
    )


routes = Routes()

MAX_SHOWN = 500
KINDS = {each.name.lower().replace("_", "-"): each for each in ResourceType}
Kind = Literal["topic", "group", "cluster", "transactional-id", "delegation-token", "user"]


class AclsQuery(msgspec.Struct):
    q: str = ""
    """Text in the principal or the resource name."""
    principal: str = ""
    topic: str = ""
    """Only ACLs that apply to this topic."""
    group: str = ""


class AclRow(msgspec.Struct):
    permission: str
    principal: str
    operation: str
    resource: str
    name: str
    pattern: str
    host: str


class AclsPage(msgspec.Struct):
    found: int
    rules: list[AclRow]
    enabled: bool
    """False if the brokers have no authorizer."""
    may_change: bool
    operations: list[str]


class AclForm(msgspec.Struct):
    """ACL in the syntax of `barnabas acls`: a trailing `*` makes the name a prefix."""

    permission: Literal["allow", "deny"]
    principal: str
    operations: list[str]
    resource: Kind
    name: str = ""
    host: str = "*"


class RemovedAcl(msgspec.Struct):
    permission: Literal["allow", "deny"]
    principal: str
    operation: str
    resource: Kind
    name: str
    pattern: Literal["literal", "prefixed"]
    host: str


@routes.page(
    "/access/acls",
    needs=cluster(Operation.DESCRIBE),
    template="access/acls.html",
    entry=NavigationEntry("Users and ACLs", "w", 90, "access", "Access"),
)
async def show_acls(context: RequestScope, query: AclsQuery) -> AclsPage:
    """ACLs of the cluster, of one principal, or those that apply to a topic or group."""
    is_enabled, found = True, []
    try:
        found = await describe_acls(context.client, _filter(query))
    except KafkaError as error:
        if error.code is not ErrorCode.SECURITY_DISABLED:
            raise
        is_enabled = False
    wanted = query.q.lower()
    rows = [_row(acl) for acl in found if wanted in f"{acl.principal} {acl.name}".lower()]
    may_change = await may_administer(context, Operation.ALTER)
    return AclsPage(len(rows), rows[:MAX_SHOWN], is_enabled, may_change, list(words.WORDS))


@routes.action("/access/acls", needs=cluster(Operation.ALTER) & administer())
async def add_acls(context: RequestScope, form: AclForm) -> ActionResult:
    """Allow or deny a principal operations on a resource; creates one rule per operation."""
    wanted = _bindings(form)
    await create_acls(context.client, wanted)
    return ActionResult(f"{len(wanted)} rules are there", "/access/acls")


@routes.action("/access/acls/remove", needs=cluster(Operation.ALTER) & administer())
async def remove_acl(context: RequestScope, form: RemovedAcl) -> ActionResult:
    """Remove exactly one rule."""
    try:
        [operation] = words.operations(form.operation)
    except AclSyntaxError as error:
        raise BadInputError(str(error), "operation") from None
    exact = AclFilter(
        KINDS[form.resource],
        form.name,
        PatternType[form.pattern.upper()],
        form.principal,
        form.host,
        operation,
        Permission[form.permission.upper()],
    )
    if not await delete_acls(context.client, [exact]):
        raise StaleError("This rule no longer exists")
    return ActionResult("Rule removed", "/access/acls")


def _filter(query: AclsQuery) -> AclFilter:
    wanted = AclFilter(principal=query.principal or None)
    if query.topic and query.group:
        raise BadInputError("give a topic or a group, not both", "group")
    if query.topic or query.group:
        kind = ResourceType.TOPIC if query.topic else ResourceType.GROUP
        name = query.topic or query.group
        wanted = wanted._replace(resource_type=kind, name=name, pattern_type=PatternType.MATCH)
    return wanted


def _bindings(form: AclForm) -> list[AclBinding]:
    kind = KINDS[form.resource]
    name = CLUSTER_NAME if kind is ResourceType.CLUSTER else form.name
    if not name:
        raise BadInputError(f"say which {form.resource}", "name")
    if not form.operations:
        raise BadInputError("say which operations", "operations")
    try:
        return words.bindings(
            words.check_principal(form.principal),
            words.operations(",".join(form.operations)),
            [words.pattern(kind, name)],
            words.check_hosts([form.host or "*"]),
            Permission[form.permission.upper()],
        )
    except AclSyntaxError as error:
        raise BadInputError(str(error), error.field) from None


def _row(acl: AclBinding) -> AclRow:
    row = words.row(acl)
    return AclRow(
        row["permission"],
        acl.principal,
        row["operation"],
        row["resource"],
        acl.name,
        row["pattern"],
        acl.host,
    )
