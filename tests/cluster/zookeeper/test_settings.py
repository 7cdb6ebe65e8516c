"""Conversion of Kafka's settings to connection settings."""

import pytest

from barnabas.cluster.zookeeper.settings import (
    ZooKeeperSasl,
    ZooKeeperSettings,
    ZooKeeperTls,
    parse_connect,
    zookeeper_settings,
)
from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import ConfigError


def load(**properties: str) -> ZooKeeperSettings:
    settings = {name.replace("_", "."): value for name, value in properties.items()}
    return zookeeper_settings(BrokerConfig.load({"zookeeper.connect": "zk:2181/k", **settings}))


@pytest.mark.parametrize(
    ("text", "hosts", "root"),
    [
        ("zk", "zk:2181", ""),
        ("zk:2182", "zk:2182", ""),
        ("a:1,b:2, c", "a:1,b:2,c:2181", ""),
        ("a:1,b:2/kafka/one", "a:1,b:2", "/kafka/one"),
        ("zk:2181/", "zk:2181", ""),
        ("[::1]:2181/x", "[::1]:2181", "/x"),
        ("[::1]", "[::1]:2181", ""),
    ],
)
def test_addresses_are_read_as_kafka_writes_them(text: str, hosts: str, root: str) -> None:
    assert parse_connect(text) == (hosts, root)


@pytest.mark.parametrize("text", ["", "zk:port", ":2181", "zk:0", "zk:99999", "a:1,,b:2", "zk:2181/a//b"])
def test_wrong_addresses_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="zk1:2181,zk2:2181"):
        parse_connect(text)


def test_defaults() -> None:
    assert load() == ZooKeeperSettings("zk:2181", "/k", 6.0, 6.0)


def test_timeouts_are_in_seconds_and_the_connection_has_one_of_its_own() -> None:
    found = load(zookeeper_session_timeout_ms="9000", zookeeper_connection_timeout_ms="30000")
    assert (found.session_timeout, found.connection_timeout) == (9.0, 30.0)


def test_credentials_do_not_show_when_settings_are_printed() -> None:
    found = load(
        barnabas_zookeeper_digest="user:hidden",
        barnabas_zookeeper_sasl_mechanism="DIGEST-MD5",
        barnabas_zookeeper_sasl_username="user",
        barnabas_zookeeper_sasl_password="hidden",
        zookeeper_ssl_client_enable="true",
        zookeeper_ssl_keystore_location="key.pem",
        zookeeper_ssl_keystore_password="hidden",
        zookeeper_set_acl="true",
    )
    assert found.sasl == ZooKeeperSasl("DIGEST-MD5", "user", "hidden")
    assert found.tls == ZooKeeperTls(None, "key.pem", "hidden", check_hostname=True)
    assert found.digest == "user:hidden"
    assert found.set_acl
    assert "hidden" not in repr(found)


def test_a_mechanism_without_its_password_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"sasl\.password"):
        load(barnabas_zookeeper_sasl_mechanism="DIGEST-MD5", barnabas_zookeeper_sasl_username="user")


@pytest.mark.parametrize(
    "wrong",
    [
        {"zookeeper_ssl_keystore_location": "store.jks"},
        {"zookeeper_ssl_truststore_location": "store.p12"},
        {"zookeeper_ssl_truststore_location": "store", "zookeeper_ssl_truststore_type": "JKS"},
    ],
)
def test_stores_of_java_are_refused_with_how_to_convert_them(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="openssl pkcs12"):
        load(zookeeper_ssl_client_enable="true", **wrong)


def test_host_name_check_can_be_disabled() -> None:
    found = load(zookeeper_ssl_client_enable="true", zookeeper_ssl_endpoint_identification_algorithm="")
    assert found.tls is not None
    assert not found.tls.check_hostname
