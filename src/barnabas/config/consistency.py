"""Settings of a broker that must agree with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.config.setting import ConfigError

if TYPE_CHECKING:
    from barnabas.config.broker import BrokerConfig


SERVED_PROTOCOLS = ("PLAINTEXT",)


def check(config: BrokerConfig) -> None:
    """Raises ConfigError about the first contradiction."""
    _check_protection(config)
    _check_identity(config)
    _check_log_dirs(config)
    _check_times(config)
    _check_listeners(config)
    _check_replication(config)


def _check_identity(config: BrokerConfig) -> None:
    node_id, broker_id = config.static.get("node.id"), config.static.get("broker.id")
    if node_id is not None and broker_id is not None and node_id.strip() != broker_id.strip():
        raise ConfigError(
            f"node.id is {node_id} but broker.id is {broker_id}: set one of them, or both to the same"
        )
    if config.node_id < 0:
        raise ConfigError(
            f"Invalid value {config.node_id} for configuration broker.id: Value must be at least 0"
        )


def _check_protection(config: BrokerConfig) -> None:
    """Whoever asks for protection must not get a broker that is open to everybody."""
    for spec in config.listeners:
        if spec.security_protocol not in SERVED_PROTOCOLS:
            raise ConfigError(
                f"listeners has {spec}, but Barnabas does not speak {spec.security_protocol} yet: use PLAINTEXT "
                "on a network that you trust, or put a proxy that speaks TLS in front"
            )
    between_brokers = config["security.inter.broker.protocol"]
    if between_brokers not in SERVED_PROTOCOLS:
        raise ConfigError(
            f"security.inter.broker.protocol is {between_brokers}, which Barnabas does not speak yet: leave it out, "
            "and let brokers talk over a network that you trust"
        )
    if config.static.get("authorizer.class.name", "").strip():
        raise ConfigError(
            "authorizer.class.name asks for ACLs, which Barnabas does not have yet: everybody who can connect "
            "may do everything. Leave it out if that is what you want"
        )


def _check_log_dirs(config: BrokerConfig) -> None:
    folders = [folder for folder in config.log_dirs if folder]
    if not folders:
        raise ConfigError("At least one data folder must be defined via log.dirs or log.dir")


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
        raise ConfigError("listeners is empty: write for instance listeners=PLAINTEXT://127.0.0.1:9092")
    _check_advertised(config, names)
    if "inter.broker.listener.name" in config.static and "security.inter.broker.protocol" in config.static:
        raise ConfigError("Set only one of inter.broker.listener.name and security.inter.broker.protocol")
    if "inter.broker.listener.name" in config.static and config.inter_broker_listener_name not in names:
        raise ConfigError(
            f"inter.broker.listener.name is {config.inter_broker_listener_name}, "
            f"which is none of the listeners: {', '.join(sorted(names))}"
        )
    for name in config["barnabas.also.inter.broker.listeners"]:
        if name.upper() not in names:
            raise ConfigError(
                f"barnabas.also.inter.broker.listeners has {name}, "
                f"which is none of the listeners: {', '.join(sorted(names))}"
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
                "write the host name or address by which clients reach this machine"
            )


def _check_replication(config: BrokerConfig) -> None:
    wait = config["replica.fetch.wait.max.ms"]
    if wait > config["replica.socket.timeout.ms"]:
        raise ConfigError("replica.socket.timeout.ms must be at least replica.fetch.wait.max.ms")
    if wait > config["replica.lag.time.max.ms"]:
        raise ConfigError("replica.lag.time.max.ms must be at least replica.fetch.wait.max.ms")
