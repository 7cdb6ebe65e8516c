"""Settings in environment variables, by the rules of the container images of Apache Kafka and Confluent.

`KAFKA_LOG_DIRS` is `log.dirs`: `_` is a dot, `__` an underscore and `___` a dash. Some variables have
special rules:

| variable | meaning |
|---|---|
| `CLUSTER_ID` | the cluster id of a new data folder (`barnabas.cluster.id`) |
| `KAFKA_ADVERTISED_LISTENERS` without `KAFKA_LISTENERS` | listeners of the same names and ports on all interfaces |
| `KAFKA_SSL_KEYSTORE_FILENAME`, `KAFKA_SSL_TRUSTSTORE_FILENAME` | a file of `/etc/kafka/secrets` |
| `KAFKA_SSL_KEY_CREDENTIALS`, `..._KEYSTORE_...`, `..._TRUSTSTORE_...` | a file there with the password |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from barnabas.config.definitions import BROKER, UNUSED, broker_setting, suggestion
from barnabas.config.setting import ConfigError

PREFIX = "KAFKA_"
SECRETS = Path("/etc/kafka/secrets")

# Variables of the images that configure Java and Log4j instead of the broker.
_OF_JAVA = frozenset({"KAFKA_VERSION", "KAFKA_HOME", "KAFKA_HEAP_OPT"})
_PREFIXES_OF_JAVA = ("KAFKA_JMX_", "KAFKA_LOG4J_", "KAFKA_TOOLS_LOG4J_")

_FILES = {
    "ssl.keystore.filename": "ssl.keystore.location",
    "ssl.truststore.filename": "ssl.truststore.location",
}
_PASSWORD_FILES = {
    "ssl.key.credentials": "ssl.key.password",
    "ssl.keystore.credentials": "ssl.keystore.password",
    "ssl.truststore.credentials": "ssl.truststore.password",
}


class EnvironmentSettings(NamedTuple):
    properties: dict[str, str]
    notices: list[str]
    """Variables that have no effect, with the reason."""


def read_environment(environment: Mapping[str, str], secrets: Path = SECRETS) -> EnvironmentSettings:
    """Convert variables to properties. Raises ConfigError for what one broker cannot be (a KRaft quorum).

    Unknown settings are skipped with a notice, as Kafka does, so that variables for other versions do no harm.
    """
    properties: dict[str, str] = {}
    notices = []
    for name, value in sorted(environment.items()):
        if not name.startswith(PREFIX):
            continue
        setting = setting_name(name)
        if name in _OF_JAVA or name.startswith(_PREFIXES_OF_JAVA) or name.endswith("_OPTS"):
            notices.append(f"{name} has no effect: it configures Java")
        elif setting in _FILES:
            properties[_FILES[setting]] = str(secrets / value)
        elif setting in _PASSWORD_FILES:
            properties[_PASSWORD_FILES[setting]] = _read_password(name, secrets / value)
        elif broker_setting(setting) is None:
            hint = suggestion(setting, {**BROKER, **UNUSED})
            notices.append(f"{name} has no effect: unknown configuration {setting}{hint}")
        else:
            properties[setting] = value
    if environment.get("CLUSTER_ID"):
        properties["barnabas.cluster.id"] = environment["CLUSTER_ID"]
    properties.update(_listeners(properties))
    _check_roles(properties)
    return EnvironmentSettings(properties, notices)


def setting_name(variable: str) -> str:
    """`KAFKA_LOG_DIRS` -> `log.dirs`."""
    dotted = variable.removeprefix(PREFIX).lower().replace("_", ".")
    return dotted.replace("...", "-").replace("..", "_")


def _listeners(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    advertised = properties.get("advertised.listeners")
    if advertised and "listeners" not in properties:
        listeners = (text.strip().partition("://") for text in advertised.split(","))
        yield (
            "listeners",
            ",".join(f"{name}://0.0.0.0:{rest.rpartition(':')[2]}" for name, _, rest in listeners),
        )


def _read_password(variable: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(f"{variable}: cannot read {path}: {error.strerror}") from None


def _check_roles(properties: Mapping[str, str]) -> None:
    """Several nodes with a KRaft quorum would become as many clusters of one broker, without a word."""
    if properties.get("zookeeper.connect"):
        return
    roles = [role.strip() for role in properties.get("process.roles", "broker").split(",")]
    if "broker" not in roles:
        raise ConfigError(
            "KAFKA_PROCESS_ROLES has no broker: Barnabas has no separate controllers, remove this container"
        )
    voters = [voter for voter in properties.get("controller.quorum.voters", "").split(",") if voter.strip()]
    own = properties.get("node.id") or properties.get("broker.id") or "1"
    if voters and [voter.partition("@")[0].strip() for voter in voters] != [own]:
        raise ConfigError(
            "KAFKA_CONTROLLER_QUORUM_VOTERS names other nodes: brokers of Barnabas form a cluster with ZooKeeper, "
            "set KAFKA_ZOOKEEPER_CONNECT for each (docs/clusters.md)"
        )
