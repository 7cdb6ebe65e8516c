"""Real clients over TLS: produce, consume, wrong authority, host and date, and principals of certificates."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from barnabas.client.cluster import Client
from barnabas.client.errors import ClientError
from barnabas.client.security.parsing import parse_security
from barnabas.config.setting import ConfigError
from barnabas.testing import EmbeddedBroker
from tests.support.certificates import Authority, Signed
from tests.support.kafka.jars import requires_java
from tests.support.kafka.tools import run_tool
from tests.support.waiting import until

SECONDS = 60


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(security="SSL") as broker:
        yield broker


def read_all(settings: dict[str, Any], topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values: list[bytes | None] = []
    try:
        while len(values) < count:
            (message,) = consumer.consume(1, SECONDS)
            assert message.error() is None
            values.append(message.value())
    finally:
        consumer.close()
    return values


def test_librdkafka_writes_and_reads_large_and_small_records(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(configs={"max.message.bytes": "3000000"})
    values = [b"%07d" % number * size for number, size in enumerate((1, 100_000, 2, 300_000) * 5)]
    producer = Producer({**broker.clients.confluent, "message.max.bytes": 3_000_000})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(SECONDS) == 0
    assert read_all(broker.clients.confluent, topic, len(values)) == values


def test_kafka_python_writes_and_reads(broker: EmbeddedBroker) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    topic = broker.create_topic()
    producer = KafkaProducer(**broker.clients.kafka_python)
    producer.send(topic, b"over TLS").get(SECONDS)
    producer.close()
    consumer = KafkaConsumer(topic, **broker.clients.kafka_python, auto_offset_reset="earliest")
    try:
        assert next(consumer).value == b"over TLS"
    finally:
        consumer.close()


def test_aiokafka_writes_and_reads(broker: EmbeddedBroker) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    topic = broker.create_topic()

    async def run() -> bytes:
        async with AIOKafkaProducer(**broker.clients.aiokafka) as producer:
            await producer.send_and_wait(topic, b"over TLS")
        settings = {**broker.clients.aiokafka, "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(topic, **settings) as consumer:
            return bytes((await consumer.getone()).value)

    assert asyncio.run(asyncio.wait_for(run(), SECONDS)) == b"over TLS"


@requires_java
def test_kafkas_own_tools_write_and_read(broker: EmbeddedBroker, tmp_path: Path) -> None:
    topic = broker.create_topic()
    config = str(broker.clients.write_properties(tmp_path / "client.properties"))
    server = ("--bootstrap-server", broker.bootstrap_servers)
    writing = ("--topic", topic, *server, "--command-config", config)
    run_tool("org.apache.kafka.tools.ConsoleProducer", *writing, stdin="over\nTLS\n").check()
    reading = (
        "--topic",
        topic,
        *server,
        "--command-config",
        config,
        "--from-beginning",
        "--max-messages",
        "2",
    )
    result = run_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *reading).check()
    assert result.stdout.split() == ["over", "TLS"]


async def topics(broker: EmbeddedBroker, settings: dict[str, str]) -> set[str]:
    """The error of Barnabas' client."""
    async with Client(broker.bootstrap_servers, security=parse_security(settings)) as client:
        return set(await client.all_topics())


def ask(broker: EmbeddedBroker, trust: Path, **settings: str) -> set[str]:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    protocol = {"security.protocol": "SSL", "ssl.truststore.location": str(trust)}
    return asyncio.run(asyncio.wait_for(topics(broker, {**protocol, **names}), SECONDS))


def test_barnabas_client_is_warned_of_another_authority(broker: EmbeddedBroker, tmp_path: Path) -> None:
    topic = broker.create_topic()
    assert topic in ask(broker, broker.ca_file)
    other = tmp_path / "other.pem"
    other.write_text(Authority().pem)
    with pytest.raises(ClientError, match="an authority that is not trusted here"):
        ask(broker, other)
    ended = broker.broker.sockets.tls.handshakes.ended
    until(lambda: ended["failed"], "the broker to count it, a moment after the client has ended it")


def failure_of(settings: dict[str, Any]) -> str:
    """The connection error of librdkafka."""
    seen: list[KafkaError] = []
    producer = Producer({**settings, "error_cb": seen.append, "log_level": 0})
    deadline = time.monotonic() + SECONDS
    while not seen and time.monotonic() < deadline:
        producer.poll(0.1)
    return " ".join(error.str() for error in seen)


def own_store(folder: Path, authority: Authority, name: str, *addresses: str, expired: bool = False) -> str:
    signed = authority.sign(name, *addresses, expired=expired)
    path = folder / f"{name}.pem"
    path.write_text(signed.certificate_pem + signed.key_pem())
    return str(path)


@pytest.mark.parametrize(
    ("name", "address", "expired", "words"),
    [
        ("other.example", "10.1.2.3", False, "a certificate for another host"),
        ("localhost", "127.0.0.1", True, "expired or not yet valid"),
    ],
)
def test_a_certificate_for_another_host_or_of_the_past_is_refused_by_clients(
    tmp_path: Path, name: str, address: str, expired: bool, words: str
) -> None:
    authority = Authority()
    (tmp_path / "ca.pem").write_text(authority.pem)
    store = own_store(tmp_path, authority, name, address, expired=expired)
    with EmbeddedBroker({"ssl.keystore.location": store}, security="SSL") as broker:
        with pytest.raises(ClientError, match=words):
            ask(broker, tmp_path / "ca.pem")
        trusting = {**broker.clients.confluent, "ssl.ca.location": str(tmp_path / "ca.pem")}
        assert "certificate verify failed" in failure_of(trusting)


class Mutual(NamedTuple):
    """A broker that demands certificates, and rules that make names of them."""

    broker: EmbeddedBroker
    authority: Authority
    folder: Path

    def ask(self, store: str = "") -> set[str]:
        own = {"ssl_keystore_location": store} if store else {}
        return ask(self.broker, self.folder / "ca.pem", **own)


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mutual]:
    folder, authority = tmp_path_factory.mktemp("mutual"), Authority()
    (folder / "ca.pem").write_text(authority.pem)
    settings = {
        "ssl.client.auth": "required",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.ssl.ssl.keystore.location": own_store(folder, authority, "localhost", "127.0.0.1"),
        "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+)$/$1/U,RULE:^CN=(.*)[.]example$/$1/",
    }
    with EmbeddedBroker(settings, security="SSL") as broker:
        yield Mutual(broker, authority, folder)


@pytest.mark.parametrize(("name", "principal"), [("alice", "User:ALICE"), ("Bob.example", "User:Bob")])
def test_principal_of_a_certificate_follows_the_mapping_rules(
    mutual: Mutual, tmp_path: Path, name: str, principal: str
) -> None:
    seen: set[str] = set()
    note = mutual.broker.broker.sockets.connections
    store = own_store(tmp_path, mutual.authority, name)

    async def run() -> None:
        settings = {
            **mutual.broker.clients.java,
            "ssl.truststore.location": str(mutual.folder / "ca.pem"),
            "ssl.keystore.location": store,
        }
        async with Client(mutual.broker.bootstrap_servers, security=parse_security(settings)) as client:
            await client.all_topics()
            seen.update(str(each.context.principal) for each in note)

    asyncio.run(asyncio.wait_for(run(), SECONDS))
    assert principal in seen


def test_client_without_a_certificate_gets_an_error(mutual: Mutual) -> None:
    with pytest.raises(ClientError, match="requires a client certificate"):
        mutual.ask()


@pytest.mark.parametrize("expired", [False, True])
def test_certificates_of_another_authority_or_of_the_past_are_refused(
    mutual: Mutual, tmp_path: Path, expired: bool
) -> None:
    signer = mutual.authority if expired else Authority("others")
    with pytest.raises(ClientError, match="does not accept the certificate of this client"):
        mutual.ask(own_store(tmp_path, signer, "alice", expired=expired))


def test_a_certificate_that_no_rule_applies_to_is_refused(mutual: Mutual, tmp_path: Path) -> None:
    with pytest.raises(ClientError):
        mutual.ask(own_store(tmp_path, mutual.authority, "Alice Smith"))


def test_several_listeners_speak_different_protocols(tmp_path: Path) -> None:
    settings = {
        "listeners": "IN://127.0.0.1:0,OUT://127.0.0.1:0",
        "listener.security.protocol.map": "IN:PLAINTEXT,OUT:SSL",
        "barnabas.tls.auto": "true",
    }
    with EmbeddedBroker(settings, data_dir=tmp_path) as broker:
        topic = broker.create_topic()
        secure = f"127.0.0.1:{broker.broker.listeners[1].port}"
        trust = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "tls" / "ca.pem")}
        producer = Producer({"bootstrap.servers": secure, **trust})
        producer.produce(topic, json.dumps({"over": "TLS"}).encode())
        assert producer.flush(SECONDS) == 0
        assert read_all(broker.clients.confluent, topic, 1) == [b'{"over": "TLS"}']


def signed_in(broker: EmbeddedBroker, authority: Authority, client: Signed) -> bool:
    """Whether librdkafka gets an answer with this certificate."""
    errors: list[KafkaError] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SSL",
        "ssl.ca.pem": authority.pem,
        "ssl.certificate.pem": client.certificate_pem,
        "ssl.key.pem": client.key_pem(),
        "error_cb": errors.append,
    }
    asking = AdminClient(settings)
    while True:
        with contextlib.suppress(KafkaException):
            return bool(asking.list_topics(timeout=1).brokers)
        asking.poll(0)
        if any(error.code() in (KafkaError._SSL, KafkaError._TRANSPORT) for error in errors):
            return False  # with TLS 1.3 the alert follows the client's part of the handshake


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_client_whose_certificate_is_revoked_is_refused(tmp_path: Path, kind: str) -> None:
    authority = Authority()
    alice, bob = authority.sign("alice"), authority.sign("bob")
    store = tmp_path / "trusted"
    if kind == "file":
        store.write_text(authority.pem + authority.revoke(bob))
    else:
        store.mkdir()
        (store / "ca.pem").write_text(authority.pem)
        (store / "list.pem").write_text(authority.revoke(bob))
        subprocess.run(["openssl", "rehash", str(store)], check=True)
    settings = {
        "ssl.client.auth": "required",
        "ssl.truststore.location": str(store),
        "listener.name.ssl.ssl.keystore.location": own_store(tmp_path, authority, "localhost", "127.0.0.1"),
    }
    with EmbeddedBroker(settings, security="SSL") as broker:
        assert signed_in(broker, authority, alice)
        assert not signed_in(broker, authority, bob)


def test_a_revocation_list_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    authority, store = Authority(), tmp_path / "trusted.pem"
    store.write_text(f"{authority.pem}-----BEGIN X509 CRL-----\nMIIB\n-----END X509 CRL-----\n")
    settings = {
        "ssl.client.auth": "required",
        "ssl.truststore.location": str(store),
        "listener.name.ssl.ssl.keystore.location": own_store(tmp_path, authority, "localhost", "127.0.0.1"),
    }

    with (
        pytest.raises(ConfigError, match="contains no valid certificate"),
        EmbeddedBroker(settings, security="SSL"),
    ):
        pass
