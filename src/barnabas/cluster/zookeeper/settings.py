"""How to reach ZooKeeper: addresses, timeouts, credentials and TLS, out of the settings of a broker."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import ConfigError

DEFAULT_PORT = 2181
DEFAULT_SESSION_TIMEOUT = 6.0


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files. `certificate` holds our certificate and its key, for a ZooKeeper that asks for one."""

    authorities: str | None = None
    certificate: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True


@dataclass(frozen=True, slots=True)
class Sasl:
    mechanism: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    service: str = "zookeeper"


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    hosts: str
    """`HOST:PORT,HOST:PORT`, without the path behind them."""

    root: str = ""
    """The path under which everything of this cluster lies: empty, or `/like/this`."""

    session_timeout: float = DEFAULT_SESSION_TIMEOUT
    connection_timeout: float = DEFAULT_SESSION_TIMEOUT
    digest: str | None = field(default=None, repr=False)
    sasl: Sasl | None = None
    tls: Tls | None = None
    set_acl: bool = False
    """Nodes belong to the broker that created them: others may read what is no secret, and change nothing."""

    def __str__(self) -> str:
        return f"{self.hosts}{self.root}"


def parse_connect(text: str) -> tuple[str, str]:
    """`a:2181,b/path` as `("a:2181,b:2181", "/path")`."""
    hosts, slash, path = text.strip().partition("/")
    addresses = [_with_port(part.strip(), text) for part in hosts.split(",")]
    root = f"/{path}".rstrip("/") if slash else ""
    if "//" in root:
        raise _wrong(text, "the path has an empty part")
    return ",".join(addresses), root


def _with_port(address: str, text: str) -> str:
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, str(DEFAULT_PORT)
    if not host:
        raise _wrong(text, "an address lacks its host")
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise _wrong(text, f"{port!r} is no port")
    return f"{host}:{port}"


def _wrong(text: str, why: str) -> ConfigError:
    return ConfigError(
        f"Invalid value {text} for configuration zookeeper.connect: {why}. "
        "Write HOST:PORT, several of them separated by commas, and a path behind the last if you like: "
        "zk1:2181,zk2:2181,zk3:2181/barnabas"
    )


def zookeeper_settings(config: BrokerConfig) -> ZooKeeperSettings:
    """What `zookeeper.*` says; `zookeeper.connect` must be set."""
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
    """Credentials of users lie in the metadata log: over ZooKeeper they must be hidden from its other clients."""
    if config["zookeeper.connect"] and not (config["zookeeper.set.acl"] and _is_authenticated(config)):
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            "Credentials of users would be readable by everybody who reaches ZooKeeper. Give the brokers credentials "
            "of their own for it (barnabas.zookeeper.sasl.*, barnabas.zookeeper.digest, or a client certificate), set "
            "zookeeper.set.acl=true, and protect what is there already with `barnabas cluster secure`",
        )


def _is_authenticated(config: BrokerConfig) -> bool:
    has_certificate = config["zookeeper.ssl.client.enable"] and config["zookeeper.ssl.keystore.location"]
    return bool(
        config["barnabas.zookeeper.digest"] or config["barnabas.zookeeper.sasl.mechanism"] or has_certificate
    )


def _sasl(config: BrokerConfig) -> Sasl | None:
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
    return Sasl(mechanism, username, password)


def _tls(config: BrokerConfig) -> Tls | None:
    if not config["zookeeper.ssl.client.enable"]:
        return None
    for store in ("keystore", "truststore"):
        _check_pem(config, store)
    return Tls(
        config["zookeeper.ssl.truststore.location"],
        config["zookeeper.ssl.keystore.location"],
        config["zookeeper.ssl.keystore.password"],
        config["zookeeper.ssl.endpoint.identification.algorithm"].upper() == "HTTPS",
    )


def _check_pem(config: BrokerConfig, store: str) -> None:
    location = config[f"zookeeper.ssl.{store}.location"]
    kind = config[f"zookeeper.ssl.{store}.type"]
    looks_otherwise = location is not None and location.lower().endswith((".jks", ".p12", ".pfx"))
    if location is not None and (looks_otherwise or kind not in (None, "PEM")):
        raise ConfigError(
            f"zookeeper.ssl.{store}.location: {location} is not read, because stores of Java (JKS, PKCS12) are not. "
            f"Convert it, `openssl pkcs12 -in {store}.p12 -out {store}.pem -nodes` (JKS: with keytool -importkeystore "
            f"first), and set zookeeper.ssl.{store}.type=PEM"
        )
