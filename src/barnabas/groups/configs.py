"""Settings of a single group: what was set for it (a config resource of type GROUP), else the broker's default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from barnabas.config.coordinator_settings import GROUP_SYNONYMS
from barnabas.config.definitions import GROUP
from barnabas.config.setting import ConfigError

Overrides = Callable[[str], Mapping[str, str]]
"""What was set for a group, by its id."""

Defaults = Callable[[str], Any]
"""The value of a broker setting, by its name."""


def _nothing(group_id: str) -> Mapping[str, str]:
    return {}


class GroupConfigs:
    """`configs.value("orders", "consumer.session.timeout.ms")`; read each time, so changes count at once."""

    def __init__(self, overrides: Overrides = _nothing, defaults: Defaults | None = None) -> None:
        self._overrides = overrides
        self._defaults = defaults

    def value(self, group_id: str, name: str) -> Any:  # the type of a value depends on the setting
        text = self._overrides(group_id).get(name)
        if text is not None:
            try:
                return GROUP[name].parse(text)
            except ConfigError:
                pass  # stored by another version: the default is better than nothing
        if self._defaults is not None and name in GROUP_SYNONYMS:
            return self._defaults(GROUP_SYNONYMS[name])
        return GROUP[name].default_value

    def milliseconds(self, group_id: str, name: str) -> int:
        return int(self.value(group_id, name))
