"""Addresses, timeouts, credentials and TLS for ZooKeeper, from the broker's settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import ConfigError

DEFAULT_PORT = 2181
DEFAULT_SESSION_TIMEOUT = 6.0


@dataclass(frozen=True, slots=True)
class ZooKeeperTls:
    """PEM files. `certificate` has the client certificate and its key, if ZooKeeper requires one."""

    authorities: str | None = None
    certificate: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True


@dataclass(frozen=True, slots=True)
class ZooKeeperSasl:
    mechanism: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    service: str = "zookeeper"


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    hosts: str
    """`HOST:PORT,HOST:PORT`, without the path."""

    root: str = ""
    """Root path of the cluster's nodes (chroot): empty, or `/like/this`."""

    session_timeout: float = DEFAULT_SESSION_TIMEOUT
    connection_timeout: float = DEFAULT_SESSION_TIMEOUT
    digest: str | None = field(default=None, repr=False)
    sasl: ZooKeeperSasl | None = None
    tls: ZooKeeperTls | None = None
    set_acl: bool = False
    """Create nodes with ACLs: other clients may read nodes that have no secrets, and change none."""

    def __str__(self) -> str:
        return f"{self.hosts}{self.root}"


def parse_connect(text: str) -> tuple[str, str]:
    """Parse `a:2181,b/path` into `("a:2181,b:2181", "/path")`."""
    hosts, slash, path = text.strip().partition("/")
    addresses = [_with_port(part.strip(), text) for part in hosts.split(",")]
    root = f"/{path}".rstrip("/") if slash else ""
    if "//" in root:
        raise _invalid(text, "the path has an empty component")
    return ",".join(addresses), root


def _with_port(address: str, text: str) -> str:
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, str(DEFAULT_PORT)
    if not host:
        raise _invalid(text, "an address has no host")
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise _invalid(text, f"invalid port {port!r}")
    return f"{host}:{port}"


def _invalid(text: str, reason: str) -> ConfigError:
    return ConfigError(
        f"Invalid value {text} for configuration zookeeper.connect: {reason}. "
        "Use HOST:PORT, several separated by commas, with an optional path after the last one: "
        "zk1:2181,zk2:2181,zk3:2181/barnabas"
    )


def zookeeper_settings(config: BrokerConfig) -> ZooKeeperSettings:
    """Return the settings from `zookeeper.*`; `zookeeper.connect` must be set."""
    hosts, root = parse_connect(config["zookeeper.connect"] or "")
    session_timeout = config["zookeeper.session.timeout.ms"] / 1000
    connection_timeout = config["zookeeper.connection.timeout.ms"]
    return ZooKeeperSettings(
        hosts,
        root,
        session_timeout,
        session_timeout if connection_timeout is None else connection_timeout / 1000,
        config["barnabas.zookeeper.digest"],
        _sasl(config),
        _tls(config),
        config["zookeeper.set.acl"],
    )


def check_hides_secrets(config: BrokerConfig) -> None:
    """Raise KafkaError if user credentials in the metadata log would be readable by other clients of ZooKeeper."""
    if config["zookeeper.connect"] and not (config["zookeeper.set.acl"] and _is_authenticated(config)):
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            "User credentials would be readable by every client of ZooKeeper. Configure credentials of the brokers for "
            "ZooKeeper (barnabas.zookeeper.sasl.*, barnabas.zookeeper.digest, or a client certificate), set "
            "zookeeper.set.acl=true, and protect existing nodes with `barnabas cluster secure`",
        )


def _is_authenticated(config: BrokerConfig) -> bool:
    has_certificate = config["zookeeper.ssl.client.enable"] and config["zookeeper.ssl.keystore.location"]
    return bool(
        config["barnabas.zookeeper.digest"] or config["barnabas.zookeeper.sasl.mechanism"] or has_certificate
    )


def _sasl(config: BrokerConfig) -> ZooKeeperSasl | None:
    mechanism = config["barnabas.zookeeper.sasl.mechanism"]
    if mechanism is None:
        return None
    username = config["barnabas.zookeeper.sasl.username"]
    password = config["barnabas.zookeeper.sasl.password"]
    if mechanism == "DIGEST-MD5" and not (username and password):
        raise ConfigError(
            "barnabas.zookeeper.sasl.mechanism=DIGEST-MD5 needs barnabas.zookeeper.sasl.username and "
            "barnabas.zookeeper.sasl.password"
        )
    return ZooKeeperSasl(mechanism, username, password)


def _tls(config: BrokerConfig) -> ZooKeeperTls | None:
    if not config["zookeeper.ssl.client.enable"]:
        return None
    for store in ("keystore", "truststore"):
        _check_pem(config, store)
    return ZooKeeperTls(
        config["zookeeper.ssl.truststore.location"],
        config["zookeeper.ssl.keystore.location"],
        config["zookeeper.ssl.keystore.password"],
        config["zookeeper.ssl.endpoint.identification.algorithm"].upper() == "HTTPS",
    )


def _check_pem(config: BrokerConfig, store: str) -> None:
    location = config[f"zookeeper.ssl.{store}.location"]
    kind = config[f"zookeeper.ssl.{store}.type"]
    has_other_suffix = location is not None and location.lower().endswith((".jks", ".p12", ".pfx"))
    if location is not None and (has_other_suffix or kind not in (None, "PEM")):
        raise ConfigError(
            f"zookeeper.ssl.{store}.location: {location} is not supported, because it is a Java store (JKS, PKCS12). "
            f"Convert it with `openssl pkcs12 -in {store}.p12 -out {store}.pem -nodes` (JKS: with keytool "
            f"-importkeystore first), and set zookeeper.ssl.{store}.type=PEM"
        )
