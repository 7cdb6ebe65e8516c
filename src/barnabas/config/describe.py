"""Settings as returned by DescribeConfigs: value, source and synonyms.

The synonyms of an entry are all values that were considered for it, in order of precedence; the first one is effective,
and its source is the entry's source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from barnabas.config.broker import FALLBACKS, BrokerConfig
from barnabas.config.coordinator_settings import GROUP_SYNONYMS
from barnabas.config.definitions import BROKER, CLIENT_METRICS, GROUP, TOPIC, UNUSED, broker_setting
from barnabas.config.setting import Setting, UpdateMode, format_value
from barnabas.config.topic import topic_value
from barnabas.config.topic_settings import TOPIC_SYNONYMS


class ConfigSource(IntEnum):
    """Source of a value; the numbers are those of DescribeConfigs."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigSynonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    setting: Setting
    value: str | None
    source: ConfigSource
    read_only: bool
    synonyms: tuple[ConfigSynonym, ...]

    @property
    def name(self) -> str:
        return self.setting.name

    @property
    def sensitive(self) -> bool:
        return self.setting.sensitive

    @property
    def kind(self) -> int:
        return int(self.setting.kind)

    @property
    def documentation(self) -> str:
        return self.setting.documentation


def describe_topic(broker_config: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """All settings of a topic with these overrides."""
    entries = []
    for name, setting in TOPIC.items():
        if setting.internal and name not in overrides:
            continue
        value = format_value(topic_value(broker_config, overrides, name))
        own = (ConfigSynonym(name, value, ConfigSource.DYNAMIC_TOPIC),) if name in overrides else ()
        names = [synonym.name for synonym in TOPIC_SYNONYMS.get(name, ())]
        entries.append(_entry(setting, value, (*own, *_broker_synonyms(broker_config, names))))
    return entries


def describe_group(broker_config: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """All settings of a group with these overrides."""
    entries = []
    for name, setting in GROUP.items():
        broker_name = GROUP_SYNONYMS.get(name)
        if broker_name is not None:
            inherited = _broker_synonyms(broker_config, [broker_name])
        else:
            inherited = (ConfigSynonym(name, setting.default, ConfigSource.DEFAULT),)
        entries.append(_with_override(setting, overrides, ConfigSource.GROUP, inherited))
    return entries


def describe_client_metrics(overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """All settings of a client metrics subscription."""
    return [
        _with_override(setting, overrides, ConfigSource.CLIENT_METRICS, ())
        for setting in CLIENT_METRICS.values()
    ]


def describe_broker(config: BrokerConfig) -> list[ConfigEntry]:
    """All settings of a broker, including unused ones that are set."""
    explicit = {**config.static, **config.cluster_wide, **config.per_broker}
    settings = [setting for setting in BROKER.values() if not setting.internal or setting.name in explicit]
    extra = [
        setting._replace(name=name)
        for name in explicit
        if name not in BROKER and (setting := broker_setting(name)) is not None
    ]
    return [_broker_entry(config, setting) for setting in (*settings, *extra)]


def describe_all_brokers(config: BrokerConfig) -> list[ConfigEntry]:
    """Cluster-wide dynamic configs: the broker resource with an empty name."""
    entries = []
    for name, text in config.cluster_wide.items():
        setting = broker_setting(name)
        if setting is not None:
            named = setting._replace(name=name)
            value = _shown(named, text)
            synonym = ConfigSynonym(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER)
            entries.append(_entry(named, value, (synonym,)))
    return entries


def _broker_entry(config: BrokerConfig, setting: Setting) -> ConfigEntry:
    name = setting.name
    names = [name, *(synonym.name for synonym in FALLBACKS.get(name, ()))]
    own = next((layer[name] for layer in _layers(config) if name in layer), config.default_of(setting))
    value = str(config.node_id) if name in ("node.id", "broker.id") else _shown(setting, own)
    entry = _entry(setting, value, tuple(_broker_synonyms(config, names)))
    return entry._replace(read_only=setting.mode is UpdateMode.READ_ONLY)


def _layers(config: BrokerConfig) -> tuple[Mapping[str, str], ...]:
    return config.per_broker, config.cluster_wide, config.static


def _broker_synonyms(config: BrokerConfig, names: Iterable[str]) -> tuple[ConfigSynonym, ...]:
    """All values of these settings by layer: dynamic configs take precedence over properties."""
    sources = (ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER, ConfigSource.STATIC_BROKER)
    settings = [
        setting._replace(name=name) for name in names if (setting := broker_setting(name)) is not None
    ]
    changed = [
        ConfigSynonym(setting.name, _shown(setting, layer[setting.name]), source)
        for layer, source in zip(_layers(config), sources, strict=True)
        for setting in settings
        if setting.name in layer
    ]
    defaults = [
        ConfigSynonym(setting.name, config.default_of(setting), ConfigSource.DEFAULT)
        for setting in settings
        if setting.default is not None and setting.name not in UNUSED
    ]
    return (*changed, *defaults)


def _with_override(
    setting: Setting, overrides: Mapping[str, str], source: ConfigSource, inherited: tuple[ConfigSynonym, ...]
) -> ConfigEntry:
    if setting.name not in overrides:
        value = inherited[0].value if inherited else setting.default
        return _entry(setting, value, inherited)
    value = _shown(setting, overrides[setting.name])
    return _entry(setting, value, (ConfigSynonym(setting.name, value, source), *inherited))


def _entry(setting: Setting, value: str | None, synonyms: tuple[ConfigSynonym, ...]) -> ConfigEntry:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    return ConfigEntry(setting, value, source, False, synonyms)


def _shown(setting: Setting, text: str | None) -> str | None:
    """Return the value in canonical form; None for secrets."""
    return None if text is None or setting.sensitive else format_value(setting.parse(text))
