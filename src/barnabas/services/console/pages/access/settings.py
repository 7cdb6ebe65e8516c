"""Settings of the console and rights of the user. No secrets: the Structs have no field for one."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from barnabas.security.authz import Action, Operation, ResourceType
from barnabas.services.console.access.model import Grant, MaskRule, Role
from barnabas.services.console.access.roles import rights_of
from barnabas.services.console.context import RequestScope
from barnabas.services.console.needs import ADMINISTER, Needs
from barnabas.services.console.routes import NavigationEntry, Routes
from barnabas.services.console.settings import ClusterSettings

routes = Routes()

OWN = Needs(
    note="a login; clusters are shown to who may describe them, roles, masks and tokens to who is admin in all of them"
)
DESCRIBE = Action(Operation.DESCRIBE, ResourceType.CLUSTER)


class SettingsQuery(msgspec.Struct):
    pass


class ClusterFacts(msgspec.Struct):
    name: str
    bootstrap: str
    protocol: str
    mechanism: str
    schema_registry: str
    logs: list[str]


class RoleFacts(msgspec.Struct):
    role: str
    who: list[str]
    clusters: list[str]
    names: list[str]


class MaskFacts(msgspec.Struct):
    clusters: list[str]
    topics: list[str]
    fields: list[str]
    headers: list[str]
    key: bool


class TokenFacts(msgspec.Struct):
    name: str
    expires: str


class SettingsPage(msgspec.Struct):
    user: str = msgspec.field(name="visitor")
    login: str
    read_only: bool
    clusters: list[ClusterFacts]
    rights: dict[str, list[str]]
    """Rights that each role adds to the previous one."""
    is_admin: bool
    listen: str = ""
    data: str = ""
    roles: list[RoleFacts] = []
    masks: list[MaskFacts] = []
    tokens: list[TokenFacts] = []


@routes.page(
    "/settings",
    needs=OWN,
    template="access/settings.html",
    entry=NavigationEntry("Settings", "s", 98, "settings"),
    outside=True,
)
async def show_settings(context: RequestScope, query: SettingsQuery) -> SettingsPage:
    """Settings of this console."""
    settings, access = context.settings, context.settings.access
    page = SettingsPage(
        context.user.name,
        str(access.login.kind),
        settings.read_only,
        [
            _cluster(each, context.clusters[each.name].registry.account.url)
            for each in settings.clusters
            if await context.user.on(each.name).allows(DESCRIBE)
        ],
        _rights(),
        all([await context.user.on(each).allows(ADMINISTER) for each in context.clusters]),
    )
    if page.is_admin:
        page.listen, page.data = str(settings.listen), str(settings.data)
        page.roles = [_role(each) for each in access.grants]
        page.masks = [_mask(each) for each in access.masks]
        page.tokens = [TokenFacts(each.name, _day(each.expires)) for each in access.tokens]
    return page


def _cluster(settings: ClusterSettings, registry: str) -> ClusterFacts:
    security = settings.security
    return ClusterFacts(
        settings.name,
        settings.bootstrap,
        str(security.protocol),
        "" if security.sasl is None else str(security.sasl.mechanism),
        registry,
        list(settings.logs),
    )


def _rights() -> dict[str, list[str]]:
    """Rights that each role adds to the previous one."""
    found: dict[str, list[str]] = {}
    before: set[tuple[int, int]] = set()
    for role in Role:
        rights = rights_of(role)
        found[role.name.lower()] = [
            f"{operation.name} {kind.name}" for kind, operation in rights if (kind, operation) not in before
        ]
        before = set(rights)
    return found


def _role(grant: Grant) -> RoleFacts:
    return RoleFacts(grant.role.name.lower(), grant.principals, list(grant.clusters), list(grant.names))


def _mask(rule: MaskRule) -> MaskFacts:
    return MaskFacts(list(rule.clusters), list(rule.topics), list(rule.fields), list(rule.headers), rule.key)


def _day(timestamp: float | None) -> str:
    return (
        "never" if timestamp is None else datetime.fromtimestamp(timestamp, UTC).isoformat(timespec="minutes")
    )
