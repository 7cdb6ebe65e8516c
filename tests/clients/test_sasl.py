"""Clients of every kind that authenticate with SASL, against one broker."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer

from barnabas.common.errors import ErrorCode
from barnabas.common.safe_logging import line_limit
from barnabas.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from barnabas.testing import EmbeddedBroker
from tests.clients.conftest import consume, produce
from tests.support.clients import RawConnection
from tests.support.kafka.jars import requires_java
from tests.support.kafka.tools import run_tool
from tests.support.sasl import (
    MECHANISMS,
    PASSWORD,
    PLAIN_USERS,
    USER,
    add_user,
    java_login,
    login,
    properties,
    sasl_settings,
    until_logged,
)

DEADLINE = 60


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(sasl_settings()) as running:
        add_user(running, USER, PASSWORD)
        yield running


@pytest.fixture
def bootstrap(secured: EmbeddedBroker) -> str:
    return secured.bootstrap_servers


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_writes_and_reads(bootstrap: str, mechanism: str) -> None:
    settings: dict[str, Any] = {name.replace(".", "_"): value for name, value in login(mechanism).items()}
    topic = f"rd-{uuid.uuid4()}"

    produce(bootstrap, topic, [b"one", b"two"], **settings)

    assert [each.value() for each in consume(bootstrap, topic, 2, **settings)] == [b"one", b"two"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_writes_and_reads(bootstrap: str, mechanism: str) -> None:
    settings = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    topic = f"kp-{uuid.uuid4()}"
    producer = KafkaProducer(**settings)
    producer.send(topic, b"one").get(timeout=DEADLINE)
    producer.close()
    consumer = KafkaConsumer(
        topic, auto_offset_reset="earliest", consumer_timeout_ms=DEADLINE * 1000, **settings
    )

    assert next(consumer).value == b"one"
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_writes_and_reads(bootstrap: str, mechanism: str) -> None:
    settings = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    topic = f"aio-{uuid.uuid4()}"

    async def there_and_back() -> bytes:
        async with AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(topic, b"one")
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings) as consumer:
            record = await asyncio.wait_for(consumer.getone(), DEADLINE)
        value: bytes = record.value
        return value

    assert asyncio.run(there_and_back()) == b"one"


@requires_java
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_kafkas_tools_write_and_read(bootstrap: str, tmp_path: Path, mechanism: str) -> None:
    config = tmp_path / "client.properties"
    config.write_text(properties(java_login(mechanism)))
    topic = f"java-{uuid.uuid4()}"
    common = ("--bootstrap-server", bootstrap, "--topic", topic, "--command-config", str(config))

    run_tool("org.apache.kafka.tools.ConsoleProducer", *common, stdin="one\n").check()
    read = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", *common, "--from-beginning", "--max-messages", "1"
    ).check()

    assert read.stdout == "one\n"


@pytest.mark.parametrize(("username", "password"), [(USER, "wrong-secret"), ("nobody", "wrong-secret")])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_failed_authentication_is_rejected_and_no_password_is_logged(
    bootstrap: str, mechanism: str, username: str, password: str, caplog: pytest.LogCaptureFixture
) -> None:
    errors: list[KafkaError] = []
    line_limit.forget()  # of the tests before
    with caplog.at_level(logging.DEBUG):
        settings: dict[str, Any] = {**login(mechanism, username, password), "error_cb": errors.append}
        admin = AdminClient({"bootstrap.servers": bootstrap, **settings})
        while not any(error.code() == KafkaError._AUTHENTICATION for error in errors):
            admin.poll(0.1)

        until_logged(caplog, "authentication failed")

    assert "wrong-secret" not in caplog.text


def test_a_mechanism_that_is_not_offered_is_refused_with_those_that_are(bootstrap: str) -> None:
    errors: list[KafkaError] = []
    settings = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
    }
    producer = Producer(
        {
            **settings,
            "enable.sasl.oauthbearer.unsecure.jwt": True,
            "sasl.oauthbearer.config": "principal=alice",
            "error_cb": errors.append,
        }
    )
    while not any("PLAIN,SCRAM-SHA-256,SCRAM-SHA-512" in error.str() for error in errors):
        producer.poll(0.1)


def test_clients_reauthenticate_without_errors() -> None:
    """librdkafka reauthenticates by timer, without delaying records (KIP-368)."""
    short = sasl_settings(**{"connections.max.reauth.ms": "2000"})
    with EmbeddedBroker(short) as running:
        add_user(running, USER, PASSWORD)
        again = running.broker.authentication.counts[True, True]
        errors: list[object] = []
        settings = {"bootstrap.servers": running.bootstrap_servers, **login("SCRAM-SHA-256")}
        producer = Producer({**settings, "error_cb": errors.append})
        while again["SASL_PLAINTEXT"] < 2:
            producer.produce(
                "again", b"x", on_delivery=lambda error, _: errors.append(error) if error else None
            )
            producer.poll(0.05)
        assert producer.flush(DEADLINE) == 0

    assert errors == []


LONGEST = {"SCRAM-SHA-512": 4096, "PLAIN": 65_536}


@pytest.mark.parametrize("mechanism", LONGEST)
def test_a_long_message_is_refused_before_it_is_parsed(secured: EmbeddedBroker, mechanism: str) -> None:
    name = b"x" * (LONGEST[mechanism] + 1)
    token = b"\0" + name + b"\0secret" if mechanism == "PLAIN" else b"n,,n=" + name + b",r=abc"
    with RawConnection(int(secured.bootstrap_servers.rpartition(":")[2])) as connection:
        connection.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
        answer = connection.ask(SaslAuthenticateRequest(auth_bytes=token), 2)
    assert isinstance(answer, SaslAuthenticateResponse)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "max.bytes" in (answer.error_message or "")


def test_client_with_a_name_and_password_of_maximum_length_is_authenticated() -> None:
    name, password = "n" * 4000, "p" * 65_000
    users = f'{PLAIN_USERS[:-1]} user_long="{password}";'
    settings = sasl_settings(**{"listener.name.sasl_plaintext.plain.sasl.jaas.config": users})
    with EmbeddedBroker(settings) as running:
        add_user(running, name, PASSWORD)
        for chosen in (login("SCRAM-SHA-512", name), login("PLAIN", "long", password)):
            admin = AdminClient({"bootstrap.servers": running.bootstrap_servers, **chosen})
            assert admin.list_topics(timeout=DEADLINE).brokers
