"""Validation of configs that clients change. Error codes and messages are those of Apache Kafka."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.regex import PatternError, compile_for_long_texts
from barnabas.config.broker import CLUSTER_WIDE_ONLY, BrokerConfig
from barnabas.config.definitions import (
    BROKER,
    BY_SCOPE,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    UNUSED,
    Scope,
    broker_setting,
    suggestion,
)
from barnabas.config.setting import ConfigError, Setting, SettingKind, UpdateMode, Value
from barnabas.config.tiering_checks import check_tiered_topic


def check_topic_configs(
    configs: Mapping[str, str], broker_config: BrokerConfig | None = None, *, is_internal: bool = False
) -> None:
    """Raise KafkaError (INVALID_CONFIG) for invalid topic configs; with `broker_config` also if the topic cannot be
    tiered."""
    values = _parse_all(configs, TOPIC, "topic")
    min_lag, max_lag = values.get("min.compaction.lag.ms"), values.get("max.compaction.lag.ms")
    if isinstance(min_lag, int) and isinstance(max_lag, int) and min_lag > max_lag:
        raise _invalid(
            f"conflict topic config setting min.compaction.lag.ms ({min_lag}) > "
            f"max.compaction.lag.ms ({max_lag})"
        )
    if broker_config is not None:
        try:
            check_tiered_topic(configs, broker_config, is_internal=is_internal)
        except ConfigError as error:
            raise _invalid(str(error)) from None


def check_broker_configs(configs: Mapping[str, str], *, per_broker: bool) -> None:
    """Raise KafkaError for invalid dynamic configs of one broker or of all.

    An invalid value is INVALID_REQUEST here, not INVALID_CONFIG, as in Kafka (KAFKA-13609).
    """
    for name, text in configs.items():
        setting = broker_setting(name)
        if setting is None:
            raise _invalid(f"Unknown broker config name: {name}{suggestion(name, {**BROKER, **UNUSED})}")
        _check_mode(name, setting, per_broker)
        if per_broker and name in CLUSTER_WIDE_ONLY:
            raise _invalid(
                f"Broker-level {name} cannot be altered: leaders and the controller must agree on it. "
                "Set it for a topic, or for all brokers."
            )
        try:
            value = setting.parse(text)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None
        _check_dynamic_value(name, value)


def _check_mode(name: str, setting: Setting, per_broker: bool) -> None:
    if setting.mode is UpdateMode.READ_ONLY:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs dynamically: [{name}]. Set it in the broker's properties and restart.",
        )
    if setting.mode is UpdateMode.PER_BROKER and not per_broker:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs at default cluster level, broker id must be specified: [{name}]",
        )


_MINIMUM = {"log.roll.ms": 1, "log.roll.jitter.ms": 0, "log.flush.interval.ms": 0}
"""Settings without a declared bound, as in Kafka, whose topic settings have one."""


def _check_dynamic_value(name: str, value: Value) -> None:
    if name == "log.retention.ms" and isinstance(value, int) and (value == 0 or value < -1):
        problem = "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
    elif name in _MINIMUM and isinstance(value, int) and value < _MINIMUM[name]:
        problem = f"{name} must be greater than or equal to {_MINIMUM[name]}"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def check_group_configs(configs: Mapping[str, str], broker_config: BrokerConfig | None = None) -> None:
    """Raise KafkaError (INVALID_CONFIG) for invalid group configs; with `broker_config` also beyond its bounds."""
    values = _parse_all(configs, GROUP, "group")
    if broker_config is None:
        return
    for name, value in values.items():
        _check_bounds(name, value, broker_config)
    _check_dead_letters(values.get("errors.deadletterqueue.topic.name"), broker_config)
    for kind in ("consumer", "share", "streams"):
        _check_heartbeats(kind, values, broker_config)


def _check_dead_letters(topic: Value, broker_config: BrokerConfig) -> None:
    prefix = broker_config["errors.deadletterqueue.topic.name.prefix"]
    if topic and not str(topic).startswith(prefix):
        raise _invalid(
            f"errors.deadletterqueue.topic.name must begin with {prefix!r} "
            "(errors.deadletterqueue.topic.name.prefix of the broker)"
        )


def _check_bounds(name: str, value: Value, broker_config: BrokerConfig) -> None:
    kind, _, setting = name.partition(".")
    if setting in ("num.standby.replicas", "num.warmup.replicas"):
        min_name, max_name = "", f"group.streams.max.{setting.removeprefix('num.')}"
    else:
        min_name, max_name = f"group.{kind}.min.{setting}", f"group.{kind}.max.{setting}"
    minimum, maximum = broker_config.get(min_name), broker_config.get(max_name)
    if minimum is not None and isinstance(value, int) and value < minimum:
        raise _invalid(f"{name} must be greater than or equal to {min_name}")
    if maximum is not None and isinstance(value, int) and value > maximum:
        raise _invalid(f"{name} must be less than or equal to {max_name}")


def _check_heartbeats(kind: str, values: Mapping[str, Value], broker_config: BrokerConfig) -> None:
    session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
    timeout = values.get(session, broker_config[f"group.{session}"])
    interval = values.get(heartbeat, broker_config[f"group.{heartbeat}"])
    if isinstance(timeout, int) and isinstance(interval, int) and timeout <= interval:
        raise _invalid(f"{session} must be greater than {heartbeat}")


CLIENT_SELECTORS = frozenset(
    (
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    )
)
"""Client properties that a client metrics subscription can match (KIP-714)."""


def check_client_metrics_configs(configs: Mapping[str, str]) -> None:
    """Raise KafkaError with Kafka's codes: INVALID_REQUEST, but INVALID_CONFIG for `match`."""
    for name, text in configs.items():
        setting = CLIENT_METRICS.get(name)
        if setting is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
        try:
            value = setting.parse(text)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None
        if name == "match" and isinstance(value, tuple):
            _check_selectors(value)


def _check_selectors(patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        selector, equals, expression = pattern.partition("=")
        if not equals or selector.strip() not in CLIENT_SELECTORS or not _compiles(expression.strip()):
            raise _invalid(f"Illegal client matching pattern: {pattern}")


def _compiles(expression: str) -> bool:
    try:
        compile_for_long_texts(expression)
    except PatternError:
        return False
    return True


def list_default(scope: Scope, name: str) -> str | None:
    """Default that APPEND and SUBTRACT apply to; None for a setting that is not a list."""
    setting = broker_setting(name) if scope is Scope.BROKER else BY_SCOPE[scope].get(name)
    if setting is None or setting.kind is not SettingKind.LIST:
        return None
    return setting.default or ""


def _parse_all(configs: Mapping[str, str], known: Mapping[str, Setting], resource: str) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for name, text in configs.items():
        setting = known.get(name)
        if setting is None:
            raise _invalid(f"Unknown {resource} config name: {name}{suggestion(name, known)}")
        try:
            values[name] = setting.parse(text)
        except ConfigError as error:
            raise _invalid(str(error)) from None
    return values


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
