"""Consistency checks across the settings of a broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from barnabas.config.definitions import base_name
from barnabas.config.sasl_settings import AUTHORIZERS
from barnabas.config.setting import ConfigError

if TYPE_CHECKING:
    from barnabas.config.broker import BrokerConfig


# -- Settings that name a Java class -------------------------------------------------------------------
# Names of Kafka's classes select the built-in equivalents; other classes are refused. Kafka would load the class and
# rely on it: a broker that ignored the setting would be less secure than its operator believes.

_SECURITY = "org.apache.kafka.common.security."
_OAUTH = f"{_SECURITY}oauthbearer."

KNOWN_CLASSES: dict[str, frozenset[str]] = {
    "authorizer.class.name": frozenset(AUTHORIZERS),
    "principal.builder.class": frozenset({f"{_SECURITY}authenticator.DefaultKafkaPrincipalBuilder"}),
    "sasl.server.callback.handler.class": frozenset(
        {
            f"{_OAUTH}OAuthBearerValidatorCallbackHandler",
            f"{_OAUTH}secured.OAuthBearerValidatorCallbackHandler",
        }
    ),
    "sasl.login.callback.handler.class": frozenset(
        {f"{_OAUTH}OAuthBearerLoginCallbackHandler", f"{_OAUTH}secured.OAuthBearerLoginCallbackHandler"}
    ),
    "sasl.client.callback.handler.class": frozenset(),
    "sasl.login.class": frozenset(),
    "sasl.oauthbearer.jwt.retriever.class": frozenset(
        {
            f"{_OAUTH}DefaultJwtRetriever",
            f"{_OAUTH}ClientCredentialsJwtRetriever",
            f"{_OAUTH}FileJwtRetriever",
        }
    ),
    "sasl.oauthbearer.jwt.validator.class": frozenset(
        {f"{_OAUTH}DefaultJwtValidator", f"{_OAUTH}BrokerJwtValidator"}
    ),
    "client.quota.callback.class": frozenset(),
    "ssl.engine.factory.class": frozenset(),
    "security.providers": frozenset(),
    "create.topic.policy.class.name": frozenset(),
    "alter.config.policy.class.name": frozenset(),
}
"""Classes by setting whose behaviour is built in."""


def check_classes(properties: Mapping[str, str]) -> None:
    """Raise ConfigError for the first unsupported class."""
    for name, value in _classes_in(properties):
        if value not in KNOWN_CLASSES[base_name(name)]:
            known = sorted(KNOWN_CLASSES[base_name(name)])
            advice = f"use {' or '.join(known)}, or remove" if known else "remove"
            raise ConfigError(
                f"{name} is {value}, a Java class that Barnabas cannot load, so it would not take effect: "
                f"{advice} the setting if Barnabas may run without it"
            )


def _classes_in(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, text in properties.items():
        value = text.strip()
        if value and base_name(name) in KNOWN_CLASSES:
            yield name, value


def check(config: BrokerConfig) -> None:
    """Raise ConfigError for the first contradiction."""
    check_classes(config.static)
    _check_revocation(config)
    _check_identity(config)
    _check_log_dirs(config)
    _check_times(config)
    _check_listeners(config)
    _check_replication(config)
    _check_tiers(config)


def _check_revocation(config: BrokerConfig) -> None:
    """Refuse settings that enable a revocation check, which does not exist."""
    for name in ("zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable"):
        if config.static.get(name, "").strip().lower() == "true":
            raise ConfigError(
                f"{name} is true, but Barnabas does not check revocation of ZooKeeper's certificate: remove the setting"
            )


def _check_identity(config: BrokerConfig) -> None:
    node_id, broker_id = config.static.get("node.id"), config.static.get("broker.id")
    if node_id is not None and broker_id is not None and node_id.strip() != broker_id.strip():
        raise ConfigError(
            f"node.id is {node_id} but broker.id is {broker_id}: set only one of them, or both to the same value"
        )
    if config.node_id < 0:
        raise ConfigError(
            f"Invalid value {config.node_id} for configuration broker.id: Value must be at least 0"
        )


def _check_log_dirs(config: BrokerConfig) -> None:
    folders = [folder for folder in config.log_dirs if folder]
    if not folders:
        raise ConfigError("At least one data directory must be defined via log.dirs or log.dir")


def _check_times(config: BrokerConfig) -> None:
    if config["log.retention.ms"] == 0 or config["log.retention.ms"] < -1:
        raise ConfigError("log.retention.ms must be unlimited (-1) or, equal or greater than 1")
    if config["log.roll.ms"] < 1:
        raise ConfigError("log.roll.ms must be equal or greater than 1")
    if config["log.roll.jitter.ms"] < 0:
        raise ConfigError("log.roll.jitter.ms must be equal or greater than 0")


def _check_listeners(config: BrokerConfig) -> None:
    names = {spec.name for spec in config.listeners}
    if not names:
        raise ConfigError("listeners is empty: set it, for example listeners=PLAINTEXT://127.0.0.1:9092")
    _check_advertised(config, names)
    if config["barnabas.tls.auto"] and not any(spec.has_tls for spec in config.listeners):
        raise ConfigError(
            "barnabas.tls.auto (--tls auto) creates certificates, but no listener uses TLS: set for example "
            "listeners=SSL://0.0.0.0:9093, or SASL_SSL"
        )
    if "inter.broker.listener.name" in config.static and "security.inter.broker.protocol" in config.static:
        raise ConfigError("Set only one of inter.broker.listener.name and security.inter.broker.protocol")
    if "inter.broker.listener.name" in config.static and config.inter_broker_listener_name not in names:
        raise ConfigError(
            f"inter.broker.listener.name is {config.inter_broker_listener_name}, "
            f"which is none of the listeners: {', '.join(sorted(names))}"
        )
    if "security.inter.broker.protocol" in config.static or config["zookeeper.connect"]:
        _check_inter_broker_protocol(config, names)
    for name in config["barnabas.also.inter.broker.listeners"]:
        if name.upper() not in names:
            raise ConfigError(
                f"barnabas.also.inter.broker.listeners has {name}, "
                f"which is none of the listeners: {', '.join(sorted(names))}"
            )


def _check_inter_broker_protocol(config: BrokerConfig, names: set[str]) -> None:
    """Check that a listener has the protocol between brokers. Not called for a single node with the default."""
    if config.inter_broker_listener_name not in names:
        raise ConfigError(
            f"security.inter.broker.protocol is {config['security.inter.broker.protocol']}, but no listener has this "
            f"protocol ({', '.join(sorted(names))}): add one, or set inter.broker.listener.name"
        )


def _check_advertised(config: BrokerConfig, names: set[str]) -> None:
    for spec in config.advertised_listeners:
        if spec.name not in names:
            raise ConfigError(
                f"advertised.listeners has {spec}, but listeners only has {', '.join(sorted(names))}: "
                "the names must match"
            )
        if spec.host in ("", "0.0.0.0", "::"):
            raise ConfigError(
                f"advertised.listeners has {spec}, to which no client can connect: "
                "set the host name or address that clients use for this machine"
            )


def _check_replication(config: BrokerConfig) -> None:
    wait = config["replica.fetch.wait.max.ms"]
    if wait > config["replica.socket.timeout.ms"]:
        raise ConfigError("replica.socket.timeout.ms must be at least replica.fetch.wait.max.ms")
    if wait > config["replica.lag.time.max.ms"]:
        raise ConfigError("replica.lag.time.max.ms must be at least replica.fetch.wait.max.ms")


def _check_tiers(config: BrokerConfig) -> None:
    if config["remote.log.storage.system.enable"] and not config["barnabas.remote.storage.url"]:
        raise ConfigError(
            "remote.log.storage.system.enable is true, but barnabas.remote.storage.url is not set: set it, for example "
            "to s3://bucket/prefix or file:///folder"
        )
