"""An embedded broker with TLS and users: clients connect with its prepared settings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from barnabas.client.cluster import Client
from barnabas.client.errors import ClientError
from barnabas.client.security.parsing import parse_security
from barnabas.testing import EmbeddedBroker
from barnabas.testing.client_settings import ClientSettings
from tests.support.kafka.jars import requires_java
from tests.support.kafka.tools import run_tool

SECONDS = 60
USERS = {"alice": 'her "secret"; with \\ and \'', "bob": "another"}


@pytest.fixture(scope="module", params=["SASL_SSL", "SASL_PLAINTEXT"])
def broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(security=request.param, users=USERS) as running:
        yield running


def topics(settings: ClientSettings) -> set[str]:
    async def ask() -> set[str]:
        async with Client(settings.bootstrap_servers, security=parse_security(settings.java)) as client:
            return set(await client.all_topics())

    return asyncio.run(asyncio.wait_for(ask(), SECONDS))


def test_only_known_users_are_authenticated(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic()
    assert topic in topics(broker.clients)
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert topic in topics(broker.clients_of("bob", mechanism))
    with pytest.raises(ClientError, match="rejected this client"):
        topics(
            ClientSettings(broker.bootstrap_servers, broker.security, broker.clients.ca_file, "bob", "wrong")
        )


def test_librdkafka_takes_the_settings(broker: EmbeddedBroker) -> None:
    producer = Producer(broker.clients.confluent)
    producer.produce(broker.create_topic(), b"a record")
    assert producer.flush(SECONDS) == 0


def test_kafka_python_and_aiokafka_take_the_settings(broker: EmbeddedBroker) -> None:
    from aiokafka import AIOKafkaProducer
    from kafka import KafkaProducer

    topic = broker.create_topic()
    producer = KafkaProducer(**broker.clients.kafka_python)
    producer.send(topic, b"a record").get(SECONDS)
    producer.close()

    async def send() -> None:
        async with AIOKafkaProducer(**broker.clients_of("bob").aiokafka) as producer:
            await producer.send_and_wait(topic, b"another")

    asyncio.run(asyncio.wait_for(send(), SECONDS))


@requires_java
def test_kafkas_tools_take_the_file(broker: EmbeddedBroker, tmp_path: Path) -> None:
    topic = broker.create_topic()
    config = broker.clients.write_properties(tmp_path / "client.properties")
    server = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", str(config))
    assert topic in run_tool("org.apache.kafka.tools.TopicCommand", *server, "--list").check().stdout.split()


def test_certificates_of_a_folder_that_stays_are_kept(tmp_path: Path) -> None:
    trusted = []
    for _ in range(2):
        with EmbeddedBroker(security="SSL", data_dir=tmp_path) as broker:
            trusted.append(broker.ca_file.read_bytes())
            topics(broker.clients)
    assert trusted[0] == trusted[1]


def test_clients_of_a_broker_that_wants_certificates_have_some(tmp_path: Path) -> None:
    from aiokafka import AIOKafkaProducer
    from kafka import KafkaProducer

    with EmbeddedBroker({"ssl.client.auth": "required"}, security="SSL") as broker:
        topic = broker.create_topic()
        assert topic in topics(broker.clients)
        confluent = Producer(broker.clients.confluent)
        confluent.produce(topic, b"one")
        assert confluent.flush(SECONDS) == 0
        producer = KafkaProducer(**broker.clients.kafka_python)
        producer.send(topic, b"two").get(SECONDS)
        producer.close()

        async def send() -> set[str]:
            async with AIOKafkaProducer(**broker.clients.aiokafka) as producer:
                await producer.send_and_wait(topic, b"three")
                return {str(each.context.principal) for each in broker.broker.sockets.connections}

        assert "User:CN=client" in asyncio.run(asyncio.wait_for(send(), SECONDS))
        with pytest.raises(ClientError, match="requires a client certificate"):
            topics(replace(broker.clients, key_file=None))


def test_users_and_protocol_must_agree() -> None:
    with pytest.raises(ValueError, match="users are for"):
        EmbeddedBroker(users=USERS)
    with pytest.raises(ValueError, match="SASL_SSL needs users"):
        EmbeddedBroker(security="SASL_SSL")


def test_no_password_is_shown(broker: EmbeddedBroker) -> None:
    assert "another" not in repr(broker.clients_of("bob"))
