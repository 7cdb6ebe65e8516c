from typing import Any

import pytest

from barnabas.config.broker import BrokerConfig
from barnabas.config.definitions import BROKER
from barnabas.config.describe import describe_broker
from barnabas.config.setting import ConfigError

HOUR = 3_600_000


def load(**properties: str) -> BrokerConfig:
    return BrokerConfig.load({name.replace("_", "."): value for name, value in properties.items()})


def test_a_broker_needs_no_settings() -> None:
    config = load()
    assert (config.node_id, config.log_dirs, config.warnings) == (1, ("./barnabas-data",), ())
    assert [str(spec) for spec in config.listeners] == ["PLAINTEXT://127.0.0.1:9092"]
    assert config.advertised_listeners == ()
    assert config.inter_broker_listener_name == "PLAINTEXT"


def test_every_setting_has_a_value_of_its_kind() -> None:
    config = load()
    for name, setting in BROKER.items():
        value = config[name]
        assert value is None or type(value) is type(setting.parse(setting.default or str(value)))


@pytest.mark.parametrize(
    ("properties", "name", "value"),
    [
        ({}, "log.retention.ms", 168 * HOUR),
        ({"log_retention_hours": "1"}, "log.retention.ms", HOUR),
        ({"log_retention_hours": "1", "log_retention_minutes": "2"}, "log.retention.ms", 120_000),
        ({"log_retention_minutes": "2", "log_retention_ms": "3"}, "log.retention.ms", 3),
        ({"log_retention_hours": "-1"}, "log.retention.ms", -1),
        ({"log_roll_hours": "2"}, "log.roll.ms", 2 * HOUR),
        ({"log_roll_jitter_hours": "2"}, "log.roll.jitter.ms", 2 * HOUR),
        ({"log_flush_scheduler_interval_ms": "7"}, "log.flush.interval.ms", 7),
        ({"log_dir": "/a"}, "log.dirs", ("/a",)),
        ({"log_dir": "/a", "log_dirs": "/b,/c"}, "log.dirs", ("/b", "/c")),
        ({"broker_id": "7"}, "node.id", 7),
        ({"node_id": "7"}, "broker.id", 7),
    ],
)
def test_a_setting_falls_back_to_its_synonyms(properties: dict[str, str], name: str, value: Any) -> None:
    assert load(**properties)[name] == value


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(
        ConfigError, match=r"Unknown configuration log\.retension\.ms; did you mean log\.retention\.ms\?"
    ):
        load(log_retension_ms="1")
    with pytest.raises(ConfigError, match=r"Unknown configuration qqqqqqqqqq$"):
        load(qqqqqqqqqq="1")


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        (
            {"num_partitions": "0"},
            "Invalid value 0 for configuration num.partitions: Value must be at least 1",
        ),
        ({"node_id": "1", "broker_id": "2"}, "node.id is 1 but broker.id is 2"),
        ({"broker_id": "-5"}, "Invalid value -5 for configuration broker.id"),
        ({"log_dirs": ""}, "At least one data directory"),
        ({"log_retention_ms": "0"}, "log.retention.ms must be unlimited"),
        ({"listeners": ""}, "listeners is empty"),
        ({"listeners": "PLAINTEXT://:9092", "advertised_listeners": "SSL://a:1"}, "the names must match"),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:9092"}, "to which no client can connect"),
        ({"advertised_listeners": "PLAINTEXT://:9092"}, "to which no client can connect"),
        ({"inter_broker_listener_name": "X"}, "none of the listeners: PLAINTEXT"),
        ({"barnabas_also_inter_broker_listeners": "X"}, "none of the listeners: PLAINTEXT"),
        (
            {"inter_broker_listener_name": "PLAINTEXT", "security_inter_broker_protocol": "PLAINTEXT"},
            "Set only one of",
        ),
        ({"replica_fetch_wait_max_ms": "40000"}, "replica.socket.timeout.ms must be at least"),
        ({"max_connections_per_ip_overrides": "x"}, "HOST:LIMIT,HOST:LIMIT"),
        ({"barnabas_acks_all_fsync": "maybe"}, "String must be one of: auto, always, never"),
        ({"barnabas_metrics_listen": "9100"}, "HOST:PORT or nothing"),
    ],
)
def test_wrong_and_contradictory_settings_are_refused(properties: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        load(**properties)
    assert text in str(refusal.value)


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"security_inter_broker_protocol": "SASL_SSL"}, "but no listener has this protocol (PLAINTEXT)"),
        (
            {"authorizer_class_name": "org.apache.kafka.StandardAuthorizer"},
            "authorizer.class.name is org.apache.kafka.StandardAuthorizer, a Java class that Barnabas cannot load",
        ),
        (
            {"listener_name_in_principal_builder_class": "a.B"},
            "listener.name.in.principal.builder.class is a.B",
        ),
        (
            {"listener_name_in_oauthbearer_sasl_server_callback_handler_class": "a.B"},
            "use org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler or ",
        ),
        ({"client_quota_callback_class": "a.B"}, "remove the setting if Barnabas may run without it"),
        ({"ssl_engine_factory_class": "a.B"}, "so it would not take effect"),
        ({"security_providers": "a.B"}, "security.providers is a.B"),
        ({"create_topic_policy_class_name": "a.B"}, "create.topic.policy.class.name is a.B"),
    ],
)
def test_protection_that_cannot_be_given_is_refused_instead_of_left_out(
    properties: dict[str, str], text: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        load(**properties)
    assert text in str(refusal.value)


def test_names_of_kafkas_classes_exist() -> None:
    oauth = "org.apache.kafka.common.security.oauthbearer."
    load(
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        principal_builder_class="org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        listener_name_in_oauthbearer_sasl_server_callback_handler_class=f"{oauth}OAuthBearerValidatorCallbackHandler",
    )
    load(authorizer_class_name=" kafka.security.authorizer.AclAuthorizer ", security_providers="")


def test_settings_without_a_use_here_are_accepted_with_a_warning() -> None:
    config = load(num_io_threads="8", zookeeper_ssl_protocol="TLSv1.2", num_partitions="3")
    assert config.warnings == (
        "num.io.threads is a setting of Apache Kafka that has no effect in Barnabas",
        (
            "zookeeper.ssl.protocol is a setting of Apache Kafka that has no effect in Barnabas: TLS to ZooKeeper uses "
            "TLS 1.2 or later, with OpenSSL's default ciphers"
        ),
    )


def test_the_properties_of_a_kraft_node_work() -> None:
    config = load(
        process_roles="broker,controller",
        node_id="3",
        listeners="PLAINTEXT://:9092,CONTROLLER://:9093",
        advertised_listeners="PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        controller_listener_names="CONTROLLER",
        controller_quorum_bootstrap_servers="localhost:9093",
        inter_broker_listener_name="PLAINTEXT",
        listener_security_protocol_map="CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    )
    assert [str(spec) for spec in config.listeners] == ["PLAINTEXT://:9092"]
    assert [str(spec) for spec in config.advertised_listeners] == ["PLAINTEXT://localhost:9092"]


def test_a_listener_may_have_a_value_of_its_own() -> None:
    config = BrokerConfig.load({"listener.name.plaintext.max.connections": "5", "max.connections": "9"})
    assert config["listener.name.plaintext.max.connections"] == 5
    assert (config["max.connections"], config.warnings) == (9, ())
    ineffective = BrokerConfig.load({"listener.name.plaintext.socket.request.max.bytes": "9"})
    assert "socket.request.max.bytes applies to all listeners in Barnabas" in ineffective.warnings[0]
    BrokerConfig.load({"listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": "x"})
    with pytest.raises(ConfigError, match=r"listener\.name\.plaintext\.max\.connections"):
        BrokerConfig.load({"listener.name.plaintext.max.connections": "-1"})
    with pytest.raises(ConfigError, match="Unknown configuration"):
        BrokerConfig.load({"listener.name.plaintext.nonsense": "1"})


def test_changes_at_run_time_are_stronger_than_properties_and_one_brokers_stronger_than_alls() -> None:
    started = load(log_retention_ms="1", message_max_bytes="1")
    changed = started.with_dynamic(
        {"message.max.bytes": "3"}, {"message.max.bytes": "2", "log.retention.ms": "2"}
    )
    assert (changed["message.max.bytes"], changed["log.retention.ms"]) == (3, 2)
    assert (started["message.max.bytes"], started["log.retention.ms"]) == (1, 1)


def test_a_stored_change_that_makes_no_sense_is_left_out_with_a_warning() -> None:
    changed = load().with_dynamic({"no.such.name": "1", "message.max.bytes": "x"}, {"log.retention.ms": "2"})
    assert (changed["message.max.bytes"], changed["log.retention.ms"]) == (1048588, 2)
    assert ["no.such.name" in changed.warnings[0], "message.max.bytes" in changed.warnings[1]] == [True, True]


def test_one_broker_has_no_minimum_of_in_sync_replicas_of_its_own() -> None:
    started = load(min_insync_replicas="3")
    assert started.with_dynamic({"min.insync.replicas": "1"}, {})["min.insync.replicas"] == 3
    changed = started.with_dynamic({"min.insync.replicas": "1"}, {"min.insync.replicas": "2"})
    assert changed["min.insync.replicas"] == 2
    assert changed.overridden == {"min.insync.replicas": ("3", "2")}


def test_properties_that_agree_with_the_cluster_are_not_overridden() -> None:
    shared = {"min.insync.replicas": "2"}
    assert load(min_insync_replicas=" 2").with_dynamic({}, shared).overridden == {}
    assert load().with_dynamic({}, shared).overridden == {}
    assert load(min_insync_replicas="2").overridden == {}


@pytest.mark.parametrize(
    ("properties", "delay"),
    [
        ({}, 0),
        ({"zookeeper_connect": "127.0.0.1:2181"}, 3000),
        ({"group_initial_rebalance_delay_ms": "500"}, 500),
        ({"group_initial_rebalance_delay_ms": "500", "zookeeper_connect": "127.0.0.1:2181"}, 500),
    ],
)
def test_a_node_alone_does_not_wait_for_more_members_of_a_new_group(
    properties: dict[str, str], delay: int
) -> None:
    config = load(**properties)
    described = {entry.name: entry.value for entry in describe_broker(config)}
    assert config["group.initial.rebalance.delay.ms"] == delay
    assert described["group.initial.rebalance.delay.ms"] == str(delay)
