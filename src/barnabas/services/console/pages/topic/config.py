"""Settings of a topic: shown with their defaults, changed after a preview."""

from __future__ import annotations

import msgspec

from barnabas.client import admin
from barnabas.security.authz import Operation
from barnabas.services.console.administration.configuration import (
    ConfigRow,
    ConfigRowChange,
    apply_changes,
    read_settings,
    seen_of,
)
from barnabas.services.console.administration.rights import may_change_topic
from barnabas.services.console.context import RequestScope
from barnabas.services.console.needs import topic
from barnabas.services.console.rendering import quote
from barnabas.services.console.routes import Routes

routes = Routes()


class ConfigQuery(msgspec.Struct):
    topic: str
    q: str = ""
    """Text in the name of a setting."""
    changed: bool = False
    """Only overrides of the topic."""
    changes: str = ""
    """name=value per line; a name alone resets to the default. Only previewed, not applied."""


class ConfigForm(msgspec.Struct):
    topic: str
    changes: str
    seen: str = ""
    """Preview as JSON; nothing is changed if it is outdated."""


class ConfigPage(msgspec.Struct):
    resource: str
    settings: list[ConfigRow]
    total: int
    preview: list[ConfigRowChange] | None
    """Effect of `changes`, validated by the broker."""
    seen: str
    may_alter: bool


class ConfigDone(msgspec.Struct):
    message: str
    see: str
    changed: list[ConfigRowChange]


@routes.page("/topics/{topic}/config", needs=topic(Operation.DESCRIBE_CONFIGS), template="topic/config.html")
async def show_config(context: RequestScope, query: ConfigQuery) -> ConfigPage:
    """Settings of a topic: value, default, source, documentation; with `changes`, a preview of their effect."""
    may_alter = await may_change_topic(context, Operation.ALTER_CONFIGS, query.topic)
    settings = await read_settings(context.client, admin.TOPIC, query.topic)
    preview = None
    if query.changes.strip() and may_alter:
        preview = await apply_changes(
            context.client, admin.TOPIC, query.topic, query.changes, "", validate_only=True
        )
    return config_page(query.topic, settings, query, preview, may_alter=may_alter)


@routes.action("/topics/{topic}/config", needs=topic(Operation.ALTER_CONFIGS))
async def change_config(context: RequestScope, form: ConfigForm) -> ConfigDone:
    """Change settings of a topic. Refused with the difference if they no longer match the preview."""
    changed = await apply_changes(context.client, admin.TOPIC, form.topic, form.changes, form.seen)
    return ConfigDone(told(changed, form.topic), f"/topics/{quote(form.topic)}/config", changed)


def config_page(
    resource: str,
    settings: list[ConfigRow],
    query: ConfigQuery,
    preview: list[ConfigRowChange] | None,
    *,
    may_alter: bool,
) -> ConfigPage:
    shown = [
        setting
        for setting in settings
        if query.q.lower() in setting.name.lower() and (setting.is_set or not query.changed)
    ]
    return ConfigPage(resource, shown, len(settings), preview, seen_of(preview or ()), may_alter)


def told(changed: list[ConfigRowChange], resource: str) -> str:
    names = ", ".join(each.name for each in changed)
    return f"Changed {names} of {resource}." if changed else "Everything was like this already."
