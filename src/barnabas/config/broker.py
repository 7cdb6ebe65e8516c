"""Configuration of a broker: its properties, overridden by dynamic configs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from barnabas.config import consistency
from barnabas.config.definitions import BROKER, LISTENER_PREFIX, UNUSED, broker_setting, suggestion
from barnabas.config.listeners import ListenerSpec, parse_listeners, parse_protocol_map
from barnabas.config.sasl_settings import PER_LISTENER_SASL, PER_LISTENER_TLS
from barnabas.config.setting import ConfigError, Setting, Value
from barnabas.config.tiering_settings import STORE_OPTIONS_PREFIX
from barnabas.config.topic_settings import TOPIC_SYNONYMS, BrokerSynonym
from barnabas.config.unused_settings import is_without_effect_yet, reason_without_effect

FALLBACKS: dict[str, tuple[BrokerSynonym, ...]] = {
    **{synonyms[0].name: synonyms[1:] for synonyms in TOPIC_SYNONYMS.values() if len(synonyms) > 1},
    "log.dirs": (BrokerSynonym("log.dir"),),
    "node.id": (BrokerSynonym("broker.id"),),
}
"""Settings that provide the value of an unset setting, in order of precedence."""

SINGLE_NODE_DEFAULTS = {"group.initial.rebalance.delay.ms": "0"}
"""Defaults without `zookeeper.connect`, equal to those of Kafka's sample properties for a single node."""

CLUSTER_WIDE_ONLY = frozenset({"min.insync.replicas"})
"""Settings on which leaders and the controller must agree, so a per-broker value is not allowed (KIP-966)."""

PER_LISTENER = (
    frozenset({"max.connections", "max.connection.creation.rate"}) | PER_LISTENER_SASL | PER_LISTENER_TLS
)
"""Settings that may have the prefix `listener.name.<listener>.`."""


class BrokerConfig:
    """Immutable. `config["log.retention.ms"]` is the effective value, after synonyms and defaults.

    Sources in order of precedence: the dynamic configs `per_broker` and `cluster_wide`, `static` (the properties that
    the broker was started with), the default.
    """

    __slots__ = ("_values", "cluster_wide", "per_broker", "static", "warnings")

    def __init__(
        self,
        static: Mapping[str, str],
        per_broker: Mapping[str, str] | None = None,
        cluster_wide: Mapping[str, str] | None = None,
        warnings: tuple[str, ...] = (),
    ) -> None:
        self.static = static
        self.per_broker = per_broker or {}
        self.cluster_wide = cluster_wide or {}
        self.warnings = warnings
        self._values = _effective_values({**static, **self.cluster_wide, **self.per_broker})

    @classmethod
    def load(cls, properties: Mapping[str, str]) -> BrokerConfig:
        """Read properties; ConfigError for an unknown name, an invalid value or a contradiction."""
        warnings = tuple(_check_names(properties))
        config = cls(dict(properties), warnings=warnings)
        consistency.check(config)
        return config

    def with_dynamic(self, per_broker: Mapping[str, str], cluster_wide: Mapping[str, str]) -> BrokerConfig:
        """Return the configuration with these dynamic configs.

        Invalid stored configs (written by another version, or by Kafka, which stores unknown names) are ignored with a
        warning: they must not prevent the broker from starting.
        """
        warnings = list(self.warnings)
        per_broker = {name: text for name, text in per_broker.items() if name not in CLUSTER_WIDE_ONLY}
        own, shared = _valid(per_broker, warnings), _valid(cluster_wide, warnings)
        return BrokerConfig(self.static, own, shared, tuple(warnings))

    def default_of(self, setting: Setting) -> str | None:
        """Return the default as text."""
        alone = None if self["zookeeper.connect"] else SINGLE_NODE_DEFAULTS.get(setting.name)
        return setting.default if alone is None else alone

    def __getitem__(self, name: str) -> Any:  # the type of a value depends on the setting
        return self._values[name]

    def get(self, name: str, default: Value = None) -> Any:
        return self._values.get(name, default)

    def of_listener(self, listener: str, name: str, mechanism: str = "") -> Any:
        """Return the value of a setting for a listener, or for one of its SASL mechanisms."""
        prefix = f"{LISTENER_PREFIX}{listener.lower()}."
        names = (f"{prefix}{mechanism.lower()}.{name}", f"{prefix}{name}", name)
        return next((self._values[each] for each in names if each in self._values), None)

    @property
    def overridden(self) -> dict[str, tuple[str, str]]:
        """Properties overridden by the cluster: the broker's value and the cluster's, by name."""
        return {
            name: (self.static[name], self.cluster_wide[name])
            for name in CLUSTER_WIDE_ONLY
            if name in self.static
            and name in self.cluster_wide
            and _parse(name, self.static[name]) != self[name]
        }

    @property
    def node_id(self) -> int:
        return int(self["node.id"])

    @property
    def store_options(self) -> dict[str, str]:
        """Options of the object store, by the store's names. They may be secrets and must not be shown."""
        return {
            name.removeprefix(STORE_OPTIONS_PREFIX): text
            for name, text in self.static.items()
            if name.startswith(STORE_OPTIONS_PREFIX)
        }

    @property
    def log_dirs(self) -> tuple[str, ...]:
        return tuple(self["log.dirs"])

    @property
    def listeners(self) -> tuple[ListenerSpec, ...]:
        """Listeners to open, without those of KRaft controllers."""
        return self._listeners("listeners")

    @property
    def advertised_listeners(self) -> tuple[ListenerSpec, ...]:
        """Addresses to advertise; if empty, each client gets the address that it connected to."""
        return self._listeners("advertised.listeners")

    def _listeners(self, setting: str) -> tuple[ListenerSpec, ...]:
        protocols = parse_protocol_map(self["listener.security.protocol.map"])
        broker_listeners = [
            text
            for text in self[setting] or ()
            if text.partition(":")[0].upper() not in self.controller_listener_names
        ]
        return tuple(parse_listeners(broker_listeners, protocols, setting=setting))

    @property
    def controller_listener_names(self) -> frozenset[str]:
        return frozenset(name.upper() for name in self["controller.listener.names"])

    @property
    def inter_broker_listener_name(self) -> str:
        """Listener for connections between brokers."""
        name = self["inter.broker.listener.name"]
        if name is not None:
            return str(name).upper()
        protocol = self["security.inter.broker.protocol"]
        return next((spec.name for spec in self.listeners if spec.security_protocol == protocol), protocol)

    @property
    def listener_of_brokers_alone(self) -> str | None:
        """The inter-broker listener if it is configured and clients have another one."""
        is_dedicated = "inter.broker.listener.name" in self.static and len(self.listeners) > 1
        return self.inter_broker_listener_name if is_dedicated else None

    @property
    def listeners_for_brokers(self) -> frozenset[str]:
        """Listeners that accept requests from brokers: the inter-broker listener, and others during its change."""
        others = (name.upper() for name in self["barnabas.also.inter.broker.listeners"])
        return frozenset({self.inter_broker_listener_name, *others})


def _check_names(properties: Mapping[str, str]) -> list[str]:
    """Raise for unknown names; return a warning for each setting without effect."""
    warnings = []
    for name in properties:
        setting = broker_setting(name)
        if setting is None:
            raise ConfigError(f"Unknown configuration {name}{suggestion(name, {**BROKER, **UNUSED})}")
        if setting.name in UNUSED:
            reason = reason_without_effect(setting.name)
            explanation = f": {reason}" if reason else ""
            warnings.append(
                f"{name} is a setting of Apache Kafka that has no effect in Barnabas{explanation}"
            )
        elif is_without_effect_yet(setting.name):
            warnings.append(f"{name} has no effect in Barnabas yet")
        elif name.startswith(LISTENER_PREFIX) and setting.name not in PER_LISTENER:
            warnings.append(f"{name} has no effect: {setting.name} applies to all listeners in Barnabas")
    return warnings


def _valid(configs: Mapping[str, str], warnings: list[str]) -> dict[str, str]:
    valid = {}
    for name, text in configs.items():
        try:
            _parse(name, text)
        except ConfigError as error:
            warnings.append(f"Ignoring an invalid dynamic config: {error}")
        else:
            valid[name] = text
    return valid


@cache
def _defaults(*, is_alone: bool) -> Mapping[str, Value]:
    """Default values, cached because each change of a setting evaluates all of them."""
    overrides = SINGLE_NODE_DEFAULTS if is_alone else {}
    return {
        name: setting.parse(overrides[name]) if name in overrides else setting.default_value
        for name, setting in BROKER.items()
    }


def _effective_values(texts: Mapping[str, str]) -> dict[str, Value]:
    explicit = {name: _parse(name, text) for name, text in texts.items()}
    defaults = _defaults(is_alone=not explicit.get("zookeeper.connect"))
    values = {**defaults, **{name: value for name, value in explicit.items() if name in BROKER}}
    for name, fallbacks in FALLBACKS.items():
        if name not in explicit:
            values[name] = _fallback(values[name], explicit, values, fallbacks)
    values["broker.id"] = values["node.id"]
    return {**explicit, **values}


def _parse(name: str, text: str) -> Value:
    setting = broker_setting(name)
    if setting is None:
        raise ConfigError(f"Unknown configuration {name}")
    return _named(setting, name).parse(text)


def _named(setting: Setting, name: str) -> Setting:
    """Return the setting with the name that the user wrote, for messages."""
    return setting if setting.name == name else setting._replace(name=name)


def _fallback(
    default: Value,
    explicit: Mapping[str, Value],
    values: Mapping[str, Value],
    fallbacks: tuple[BrokerSynonym, ...],
) -> Value:
    """Return the first synonym that is set, else the setting's default, else the default of a synonym."""
    for synonym in fallbacks:
        if synonym.name in explicit:
            return scaled(explicit[synonym.name], synonym.factor)
    if default is not None:
        return default
    return next(
        (
            scaled(values[synonym.name], synonym.factor)
            for synonym in fallbacks
            if values[synonym.name] is not None
        ),
        None,
    )


def scaled(value: Value, factor: int) -> Value:
    """Convert a number to another unit; negative numbers mean 'no limit' in every unit."""
    if isinstance(value, bool) or not isinstance(value, int) or factor == 1:
        return value
    return value * factor if value >= 0 else -1
