"""Settings of one broker or of all brokers: shown with their defaults, changed after a preview."""

from __future__ import annotations

import re

import msgspec

from barnabas.client import admin
from barnabas.security.authz import Operation
from barnabas.services.console.administration.configuration import apply_changes, parse_changes, read_settings
from barnabas.services.console.administration.rights import may_change_cluster
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BadInputError, RefusedError
from barnabas.services.console.needs import ADMINISTER, cluster
from barnabas.services.console.pages.topic.config import (
    ConfigDone,
    ConfigPage,
    ConfigQuery,
    config_page,
    told,
)
from barnabas.services.console.routes import Routes

routes = Routes()

OF_SECURITY = re.compile(
    r"(^|\.)(ssl|sasl|security|authorizer|principal|password|delegation|oauthbearer|credential)\."
    r"|^(super\.users|allow\.everyone|listeners|advertised\.listeners|listener\.|inter\.broker\.|control\.plane\.)",
    re.IGNORECASE,
)
"""Settings of TLS, SASL, listeners and authorization, including those of a single listener."""
ALL_BROKERS = "default"  # Kafka's name for the cluster-wide broker settings


class BrokerConfigQuery(msgspec.Struct):
    id: str
    """Broker id; `default`: cluster-wide settings."""
    q: str = ""
    changed: bool = False
    changes: str = ""


class BrokerConfigForm(msgspec.Struct):
    id: str
    changes: str
    seen: str = ""


@routes.page(
    "/brokers/{id}/config", needs=cluster(Operation.DESCRIBE_CONFIGS), template="cluster/broker_config.html"
)
async def show_broker_config(context: RequestScope, query: BrokerConfigQuery) -> ConfigPage:
    """Settings of a broker (`default`: of all brokers): value, default, source, documentation."""
    name = resource_name(query.id)
    may_alter = await may_change_cluster(context, Operation.ALTER_CONFIGS)
    settings = await read_settings(context.client, admin.BROKER, name)
    preview = None
    if query.changes.strip() and may_alter:
        await _demand_admin(context, query.changes)
        preview = await apply_changes(
            context.client, admin.BROKER, name, query.changes, "", validate_only=True
        )
    wanted = ConfigQuery(query.id, query.q, query.changed, query.changes)
    return config_page(query.id, settings, wanted, preview, may_alter=may_alter)


@routes.action("/brokers/{id}/config", needs=cluster(Operation.ALTER_CONFIGS))
async def change_broker_config(context: RequestScope, form: BrokerConfigForm) -> ConfigDone:
    """Change settings of a broker at runtime. Refused if they no longer match the preview."""
    name = resource_name(form.id)
    await _demand_admin(context, form.changes)
    changed = await apply_changes(context.client, admin.BROKER, name, form.changes, form.seen)
    what = f"broker {form.id}" if name else "all brokers"
    return ConfigDone(told(changed, what), f"/brokers/{form.id}/config", changed)


async def _demand_admin(context: RequestScope, changes: str) -> None:
    """Raise RefusedError if an operator changes settings that control access to the cluster."""
    found = next((name for name in parse_changes(changes) if OF_SECURITY.search(name)), None)
    if found is not None and not await context.user.allows(ADMINISTER):
        raise RefusedError(
            f"{found} decides who can connect to the cluster: changing it needs the role admin"
        )


def resource_name(text: str) -> str:
    if text == ALL_BROKERS:
        return ""
    if not admin.is_broker_id(text):
        raise BadInputError(f"not a valid broker id: {text[:20]!r} ({ALL_BROKERS} means all brokers)", "id")
    return text
