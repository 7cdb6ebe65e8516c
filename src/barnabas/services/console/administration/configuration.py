"""Settings with their defaults, and changes to them: parsed, compared, checked against concurrent changes."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping

import msgspec

from barnabas.client import Client, admin
from barnabas.protocol.messages.configs import DescribeConfigsResourceResult
from barnabas.services.console.errors import BadInputError, StaleError

MAX_CHANGES = 200
HIDDEN = "(hidden)"
_DYNAMIC = frozenset({admin.SET_ON_BROKER, admin.SET_ON_ALL_BROKERS})
_MARKUP = re.compile(r"</?[a-z][^<>]*>")

Changes = Mapping[str, str | None]
"""New values by name; None resets to the default."""


class ConfigRow(msgspec.Struct):
    name: str
    value: str | None
    default: str | None
    """The inherited value: the brokers' value, or Kafka's default."""
    is_set: bool
    """True if set on this resource rather than inherited."""
    source: str
    read_only: bool
    sensitive: bool
    documentation: str

    @property
    def shown(self) -> str:
        return HIDDEN if self.sensitive else (self.value or "")


class ConfigRowChange(msgspec.Struct):
    name: str
    before: str | None
    after: str | None
    is_reset: bool
    """True if the change resets to the default, given in `after`."""


async def read_settings(client: Client, resource_type: int, name: str) -> list[ConfigRow]:
    if resource_type == admin.BROKER and not name:
        return await _settings_of_all_brokers(client)
    found = await admin.describe_configs(client, resource_type, name, documentation=True)
    own = {admin.SET_ON_BROKER} if resource_type == admin.BROKER else {admin.SET_ON_TOPIC, admin.SET_ON_GROUP}
    return [setting_of(config, frozenset(own)) for config in found]


async def _settings_of_all_brokers(client: Client) -> list[ConfigRow]:
    """Brokers report only dynamic cluster-wide defaults; the rest is read from any one broker."""
    changed = {each.name: each for each in await admin.describe_configs(client, admin.BROKER, "")}
    some = min(client.metadata.brokers or (await client.refresh([])).brokers)
    found = await admin.describe_configs(client, admin.BROKER, str(some), documentation=True)
    return [for_all_brokers(config, changed.get(config.name)) for config in found]


def for_all_brokers(
    config: DescribeConfigsResourceResult, changed: DescribeConfigsResourceResult | None
) -> ConfigRow:
    """Convert a setting of one broker to the cluster-wide setting, without values specific to that broker."""
    setting = setting_of(config, _DYNAMIC)
    setting.is_set = changed is not None
    setting.value = None if setting.sensitive else setting.default if changed is None else changed.value
    setting.source = admin.CONFIG_SOURCES[
        admin.DEFAULT_VALUE if changed is None else admin.SET_ON_ALL_BROKERS
    ]
    return setting


def setting_of(config: DescribeConfigsResourceResult, own: frozenset[int]) -> ConfigRow:
    others = [each for each in config.synonyms if each.source not in own]
    is_set = config.config_source in own
    return ConfigRow(
        config.name,
        None if config.is_sensitive else config.value,
        (others[0].value if others else None) if is_set or others else config.value,
        is_set,
        admin.CONFIG_SOURCES.get(config.config_source, "unknown"),
        config.read_only,
        config.is_sensitive,
        plain_text(config.documentation or ""),
    )


def plain_text(documentation: str) -> str:
    """Strip the HTML markup of Apache Kafka's documentation."""
    return html.unescape(_MARKUP.sub("", documentation))


def parse_changes(text: str) -> dict[str, str | None]:
    """Parse lines of `name=value`; a name alone resets to the default."""
    changes: dict[str, str | None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, equals, value = line.partition("=")
        name = name.strip()
        if not name and not equals:
            continue
        if not name or " " in name or name in changes:
            problem = (
                "has no name"
                if not name
                else "is not a valid setting name"
                if " " in name
                else "is there twice"
            )
            raise BadInputError(f"Line {number}: {name or line!r} {problem}; write name=value", "changes")
        changes[name] = value.strip() if equals else None
    if not changes:
        raise BadInputError("Nothing is to change: write name=value, one a line", "changes")
    if len(changes) > MAX_CHANGES:
        raise BadInputError(f"Change at most {MAX_CHANGES} settings at once", "changes")
    return changes


def difference(settings: Iterable[ConfigRow], changes: Changes) -> list[ConfigRowChange]:
    """Changes with their current values, without those that already hold."""
    known = {setting.name: setting for setting in settings}
    found = []
    for name, value in changes.items():
        setting = known.get(name)
        if setting is None:
            raise BadInputError(f"Unknown setting {name!r}", "changes")
        if setting.read_only:
            raise BadInputError(
                f"{name} can only be set in the broker's properties, before it starts", "changes"
            )
        is_same = not setting.is_set if value is None else setting.is_set and setting.value == value
        if setting.sensitive or not is_same:
            after = setting.default if value is None else value
            found.append(ConfigRowChange(name, setting.shown, after, value is None))
    return found


def spell(changes: Iterable[ConfigRowChange]) -> str:
    """The changes as text for the form."""
    return "\n".join(each.name if each.is_reset else f"{each.name}={each.after}" for each in changes)


def seen_of(changes: Iterable[ConfigRowChange]) -> str:
    """The current values, to be sent back with the form."""
    return msgspec.json.encode({each.name: each.before for each in changes}).decode()


def check_seen(settings: Iterable[ConfigRow], seen: str) -> None:
    """Raises StaleError if a value differs from the one the form showed. Without `seen` nothing is compared."""
    if not seen:
        return
    try:
        shown = msgspec.json.decode(seen, type=dict[str, str | None])
    except msgspec.DecodeError:
        raise BadInputError("seen must be a JSON object of names and values", "seen") from None
    now = {setting.name: setting.shown for setting in settings}
    moved = [
        f"{name} was {before or 'empty'} and is {now.get(name) or 'empty'} now"
        for name, before in shown.items()
        if (before or "") != (now.get(name) or "")
    ]
    if moved:
        raise StaleError(f"Changed by another user: {'; '.join(moved)}. Check the new values and try again")


def to_admin(changes: Changes) -> list[admin.ConfigChange]:
    return [
        admin.ConfigChange(name, value, admin.DELETE if value is None else admin.SET)
        for name, value in changes.items()
    ]


async def apply_changes(
    client: Client, resource_type: int, name: str, text: str, seen: str, *, validate_only: bool = False
) -> list[ConfigRowChange]:
    """Apply changes if the settings still have the values shown in the form; return the changes. With `validate_only`,
    brokers only validate them."""
    settings = await read_settings(client, resource_type, name)
    changes = parse_changes(text)
    check_seen(settings, seen)
    found = difference(settings, changes)
    wanted = {each.name: changes[each.name] for each in found}
    if wanted:
        await admin.alter_configs(client, resource_type, name, to_admin(wanted), validate_only=validate_only)
    return found
