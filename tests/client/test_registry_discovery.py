"""A client finds the registry of its cluster, and sends credentials only where allowed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import barnabas
from barnabas.cli.registry import announced_address
from barnabas.client import Address
from barnabas.client.schemas.client import RegistryError
from barnabas.client.schemas.discovery import discover, located
from barnabas.client.schemas.settings import NO_ACCOUNT, RegistryAccount
from barnabas.client.security import PLAINTEXT, ClientSecurity
from barnabas.security.authn import Secret
from barnabas.security.tls import TlsSettings
from barnabas.testing import EmbeddedBroker
from tests.support.cli import Cli

LOGIN = RegistryAccount(user="ann", password=Secret("secret"))
BROKER = Address("kafka1", 9092)
TLS = ClientSecurity(TlsSettings(ciphers="broker's own"))
ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(registry=True) as running:
        yield running


@pytest.mark.parametrize(
    ("response", "url"),
    [
        ("http://:8081", "http://kafka1:8081"),
        ("https://kafka1:8081", "https://kafka1:8081"),
        ("http://registry:8081", "http://registry:8081"),
        ("http://127.0.0.1:8081", None),
        ("", None),
        ("ftp://kafka1:21", None),
        ("http://kafka1", None),
    ],
)
def test_an_address_is_that_of_the_broker_unless_it_names_a_host(response: str, url: str | None) -> None:
    found = located(NO_ACCOUNT, response, BROKER, PLAINTEXT)
    assert (found.url if found is not None else None) == url


def test_a_login_is_sent_to_the_host_of_the_broker_only() -> None:
    found = located(LOGIN, "http://:8081", BROKER, PLAINTEXT)
    assert found is not None
    assert (found.user, found.discovered) == ("ann", True)
    with pytest.raises(RegistryError, match=r"not on the host of the broker .* set schema\.registry\.url"):
        located(LOGIN, "http://elsewhere:8081", BROKER, PLAINTEXT)
    with pytest.raises(RegistryError, match="does not use TLS, although the brokers do"):
        located(LOGIN, "http://:8081", BROKER, TLS)
    local = located(LOGIN, "http://127.0.0.1:8081", Address("localhost", 9092), PLAINTEXT)
    assert local is not None


def test_https_is_verified_as_the_brokers_are_and_does_not_get_their_login() -> None:
    found = located(NO_ACCOUNT, "https://:8081", BROKER, TLS)
    assert found is not None
    assert found.tls == TlsSettings()
    assert not found.has_credentials


def test_a_broker_announces_a_fixed_port_only() -> None:
    assert announced_address(["--listen", "127.0.0.1:8081"]) == "http://127.0.0.1:8081"
    assert announced_address(["--listen", "0.0.0.0:8081", "--tls", "file"]) == "https://:8081"
    assert announced_address(["--listen", "0.0.0.0:0"]) == ""


def test_tables_and_commands_find_the_registry_of_the_cluster(broker: EmbeddedBroker) -> None:
    found = discover(broker.bootstrap_servers)
    assert found is not None
    assert found.url == broker.registry_url
    elsewhere = RegistryAccount("http://127.0.0.1:9")
    assert discover(broker.bootstrap_servers, account=elsewhere) == elsewhere

    topic, cli = broker.create_topic(), Cli(broker.bootstrap_servers)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    with SchemaRegistryClient({"url": broker.registry_url}) as client:
        serializer = AvroSerializer(client, ORDER)
        producer.produce(topic, serializer({"id": 7}, SerializationContext(topic, MessageField.VALUE)))
    assert producer.flush(30) == 0
    table = barnabas.table(topic, bootstrap=broker.bootstrap_servers)
    assert table.to_arrow().column("id").to_pylist() == [7]
    assert cli.ok("sql", f'select id from "{topic}"', "-o", "json").json == {"id": 7}
    shown = cli.ok("consume", topic, "--from", "beginning", "-e", "--schema").out
    assert json.loads(shown) == {"id": 7}


def test_a_topic_without_a_schema_is_read_as_before(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, b'{"id": 7}')
    assert producer.flush(30) == 0
    notes: list[str] = []
    table = barnabas.table(topic, bootstrap=broker.bootstrap_servers, notify=notes.append)
    assert table.to_arrow().column("id").to_pylist() == [7]
    assert [note for note in notes if "registry" in note] == []


def test_a_cluster_without_a_registry_names_none() -> None:
    with EmbeddedBroker() as alone:
        assert discover(alone.bootstrap_servers) is None
