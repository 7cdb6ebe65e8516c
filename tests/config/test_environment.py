"""Settings in environment variables: the rules of Kafka's images, and their published compose files."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.config.broker import BrokerConfig
from barnabas.config.environment import read_environment, setting_name
from barnabas.config.setting import ConfigError
from tests.support.compose import APACHE, CONFLUENT


@pytest.mark.parametrize(
    ("variable", "setting"),
    [
        ("KAFKA_NODE_ID", "node.id"),
        ("KAFKA_ADVERTISED_LISTENERS", "advertised.listeners"),
        ("KAFKA_LISTENER_NAME_MY__CLIENTS_MAX_CONNECTIONS", "listener.name.my_clients.max.connections"),
        ("KAFKA_LISTENER_NAME_IN___HOUSE_MAX_CONNECTIONS", "listener.name.in-house.max.connections"),
        ("KAFKA_BARNABAS_METRICS_LISTEN", "barnabas.metrics.listen"),
    ],
)
def test_names_follow_the_rule_of_both_images(variable: str, setting: str) -> None:
    assert setting_name(variable) == setting


@pytest.mark.parametrize("variables", [APACHE, CONFLUENT], ids=["apache", "confluent"])
def test_published_compose_files_are_accepted(variables: dict[str, str]) -> None:
    properties, notices = read_environment(variables)
    config = BrokerConfig.load(properties)
    assert {spec.name for spec in config.listeners} == {"PLAINTEXT", "PLAINTEXT_HOST"}
    assert config["barnabas.cluster.id"] == variables["CLUSTER_ID"]
    assert config.node_id == 1
    assert config.log_dirs == ("/tmp/kraft-combined-logs",)
    assert any(text.startswith("process.roles") for text in config.warnings)
    assert all("JMX" in notice for notice in notices)


def test_listeners_are_derived_from_advertised_ones() -> None:
    advertised = "PLAINTEXT://kafka:29092,PLAINTEXT_HOST://localhost:9092"
    properties, _ = read_environment({"KAFKA_ADVERTISED_LISTENERS": advertised})
    assert properties["listeners"] == "PLAINTEXT://0.0.0.0:29092,PLAINTEXT_HOST://0.0.0.0:9092"


def test_key_stores_and_their_passwords_are_files_of_the_secrets_folder(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret\n")
    variables = {
        "KAFKA_SSL_KEYSTORE_FILENAME": "broker.p12",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "password",
        "KAFKA_SSL_KEY_CREDENTIALS": "password",
    }
    properties, _ = read_environment(variables, secrets=tmp_path)
    assert properties == {
        "ssl.keystore.location": str(tmp_path / "broker.p12"),
        "ssl.keystore.password": "secret",
        "ssl.key.password": "secret",
    }
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere"):
        read_environment({"KAFKA_SSL_KEY_CREDENTIALS": "nowhere"}, secrets=tmp_path)


def test_variables_without_effect_are_named() -> None:
    variables = {
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "KAFKA_LOG4J_LOGGERS": "kafka=WARN",
        "KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_LISTENRS": "PLAINTEXT://:9092",
        "PATH": "/bin",
    }
    properties, notices = read_environment(variables)
    assert not properties
    assert [notice.split(" has no effect")[0] for notice in notices] == sorted(variables)[:4]
    assert any("listeners" in notice for notice in notices)


@pytest.mark.parametrize(
    "variables",
    [
        {"KAFKA_PROCESS_ROLES": "controller"},
        {"KAFKA_NODE_ID": "2", "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:9093,2@b:9093,3@c:9093"},
        {"KAFKA_NODE_ID": "2", "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:9093"},
    ],
)
def test_a_quorum_of_several_nodes_is_refused_without_zookeeper(variables: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"ZooKeeper|controllers"):
        read_environment(variables)
    read_environment({**variables, "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181"})
