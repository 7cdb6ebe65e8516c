"""The configuration of one broker: from its properties, then with what was changed at run time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from barnabas.config import consistency
from barnabas.config.definitions import BROKER, LISTENER_PREFIX, UNUSED, broker_setting, suggestion
from barnabas.config.listeners import ListenerSpec, parse_listeners, parse_protocol_map
from barnabas.config.security.sasl_settings import PER_LISTENER_SASL, PER_LISTENER_TLS
from barnabas.config.setting import ConfigError, Setting, Value
from barnabas.config.tiering_settings import STORE_OPTIONS_PREFIX
from barnabas.config.topic_settings import TOPIC_SYNONYMS, Synonym
from barnabas.config.unused_settings import is_without_effect_yet, reason_without_effect

FALLBACKS: dict[str, tuple[Synonym, ...]] = {
    **{synonyms[0].name: synonyms[1:] for synonyms in TOPIC_SYNONYMS.values() if len(synonyms) > 1},
    "log.dirs": (Synonym("log.dir"),),
    "node.id": (Synonym("broker.id"),),
}
"""Settings that a setting takes its value from when it is not set itself, in this order."""

DEFAULTS_OF_A_NODE_ALONE = {"group.initial.rebalance.delay.ms": "0"}
"""Where `zookeeper.connect` is not set. The properties that Kafka ships with say the same for one node."""

CLUSTER_WIDE_ONLY = frozenset({"min.insync.replicas"})
"""What leaders and the controller must agree on: one broker cannot have a value of its own (KIP-966)."""

PER_LISTENER = (
    frozenset({"max.connections", "max.connection.creation.rate"}) | PER_LISTENER_SASL | PER_LISTENER_TLS
)
"""What `listener.name.<listener>.` may stand before."""


class BrokerConfig:
    """Immutable. `config["log.retention.ms"]` is the value in force, whichever synonym or default gave it.

    Where a value comes from, strongest first: `per_broker` and `cluster_wide`, which were changed at
    run time, then `static`, the properties that the broker was started with, then the default.
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
        """Raises ConfigError when a name is unknown, a value wrong, or two settings contradict each other."""
        warnings = tuple(_check_names(properties))
        config = cls(dict(properties), warnings=warnings)
        consistency.check(config)
        return config

    def with_dynamic(self, per_broker: Mapping[str, str], cluster_wide: Mapping[str, str]) -> BrokerConfig:
        """The same broker with other run-time changes.

        Stored changes that make no sense (another version wrote them, or Kafka, which stores unknown names)
        are left out with a warning: they must not keep a broker from starting.
        """
        warnings = list(self.warnings)
        per_broker = {name: text for name, text in per_broker.items() if name not in CLUSTER_WIDE_ONLY}
        mine, shared = _usable(per_broker, warnings), _usable(cluster_wide, warnings)
        return BrokerConfig(self.static, mine, shared, tuple(warnings))

    def default_of(self, setting: Setting) -> str | None:
        """The text of what is in force where nothing is set."""
        alone = None if self["zookeeper.connect"] else DEFAULTS_OF_A_NODE_ALONE.get(setting.name)
        return setting.default if alone is None else alone

    def __getitem__(self, name: str) -> Any:  # the type of a value depends on the setting
        return self._values[name]

    def get(self, name: str, default: Value = None) -> Any:
        return self._values.get(name, default)

    def of_listener(self, listener: str, name: str, mechanism: str = "") -> Any:
        """The value of a setting for one listener, or for one of its mechanisms of SASL."""
        prefix = f"{LISTENER_PREFIX}{listener.lower()}."
        names = (f"{prefix}{mechanism.lower()}.{name}", f"{prefix}{name}", name)
        return next((self._values[each] for each in names if each in self._values), None)

    @property
    def overruled(self) -> dict[str, tuple[str, str]]:
        """Settings of our properties that the cluster has another value for: ours, and the cluster's."""
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
        """What is given to the object store, by the names it has there. Never to be shown."""
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
        """What to listen on, without the listeners of KRaft controllers."""
        return self._listeners("listeners")

    @property
    def advertised_listeners(self) -> tuple[ListenerSpec, ...]:
        """What clients are to be told; empty: the address by which each has reached us."""
        return self._listeners("advertised.listeners")

    def _listeners(self, setting: str) -> tuple[ListenerSpec, ...]:
        protocols = parse_protocol_map(self["listener.security.protocol.map"])
        ours = [
            text
            for text in self[setting] or ()
            if text.partition(":")[0].upper() not in self.controller_listener_names
        ]
        return tuple(parse_listeners(ours, protocols, setting=setting))

    @property
    def controller_listener_names(self) -> frozenset[str]:
        return frozenset(name.upper() for name in self["controller.listener.names"])

    @property
    def inter_broker_listener_name(self) -> str:
        """The listener that brokers use among themselves."""
        named = self["inter.broker.listener.name"]
        if named is not None:
            return str(named).upper()
        protocol = self["security.inter.broker.protocol"]
        return next((spec.name for spec in self.listeners if spec.security_protocol == protocol), protocol)

    @property
    def listener_of_brokers_alone(self) -> str | None:
        """The listener that was named for brokers, if clients have others to go to."""
        is_named = "inter.broker.listener.name" in self.static and len(self.listeners) > 1
        return self.inter_broker_listener_name if is_named else None

    @property
    def listeners_for_brokers(self) -> frozenset[str]:
        """Where brokers are served as brokers: that one, and others while it is being changed."""
        others = (name.upper() for name in self["barnabas.also.inter.broker.listeners"])
        return frozenset({self.inter_broker_listener_name, *others})


def _check_names(properties: Mapping[str, str]) -> list[str]:
    """Raises for names that nobody knows; returns a warning for each that has no effect."""
    warnings = []
    for name in properties:
        setting = broker_setting(name)
        if setting is None:
            raise ConfigError(f"Unknown configuration {name}{suggestion(name, {**BROKER, **UNUSED})}")
        if setting.name in UNUSED:
            reason = reason_without_effect(setting.name)
            because = f": {reason}" if reason else ""
            warnings.append(f"{name} is a setting of Apache Kafka that has no effect in Barnabas{because}")
        elif is_without_effect_yet(setting.name):
            warnings.append(f"{name} has no effect in Barnabas yet")
        elif name.startswith(LISTENER_PREFIX) and setting.name not in PER_LISTENER:
            warnings.append(f"{name} has no effect: Barnabas has one {setting.name} for all listeners")
    return warnings


def _usable(changes: Mapping[str, str], warnings: list[str]) -> dict[str, str]:
    usable = {}
    for name, text in changes.items():
        try:
            _parse(name, text)
        except ConfigError as error:
            warnings.append(f"A stored change of a setting is ignored: {error}")
        else:
            usable[name] = text
    return usable


@cache
def _defaults(*, is_alone: bool) -> Mapping[str, Value]:
    """Parsed once, because a change of one setting evaluates all of them again."""
    own = DEFAULTS_OF_A_NODE_ALONE if is_alone else {}
    return {
        name: setting.parse(own[name]) if name in own else setting.default_value
        for name, setting in BROKER.items()
    }


def _effective_values(texts: Mapping[str, str]) -> dict[str, Value]:
    given = {name: _parse(name, text) for name, text in texts.items()}
    defaults = _defaults(is_alone=not given.get("zookeeper.connect"))
    values = {**defaults, **{name: value for name, value in given.items() if name in BROKER}}
    for name, fallbacks in FALLBACKS.items():
        if name not in given:
            values[name] = _fallback(values[name], given, values, fallbacks)
    values["broker.id"] = values["node.id"]
    return {**given, **values}


def _parse(name: str, text: str) -> Value:
    setting = broker_setting(name)
    if setting is None:
        raise ConfigError(f"Unknown configuration {name}")
    return _named(setting, name).parse(text)


def _named(setting: Setting, name: str) -> Setting:
    """The setting under the name that the user has written, for messages."""
    return setting if setting.name == name else setting._replace(name=name)


def _fallback(
    default: Value, given: Mapping[str, Value], values: Mapping[str, Value], fallbacks: tuple[Synonym, ...]
) -> Value:
    """The first synonym that is set; else the setting's own default; else that of a synonym."""
    for synonym in fallbacks:
        if synonym.name in given:
            return scaled(given[synonym.name], synonym.factor)
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
    """A number in another unit; negative ones mean 'no limit' in every unit."""
    if isinstance(value, bool) or not isinstance(value, int) or factor == 1:
        return value
    return value * factor if value >= 0 else -1
