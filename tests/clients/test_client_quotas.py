"""Producers and consumers under a quota: rates and throttle times, compared with Apache Kafka."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.protocol.messages.metadata import ApiVersionsRequest
from barnabas.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from barnabas.security.quotas.filters import QuotaEntity
from barnabas.testing import EmbeddedBroker
from tests.support.brokers import set_quotas
from tests.support.clients import RawConnection, frame_of
from tests.support.kafka.broker import ApacheKafka
from tests.support.kafka.tools import run_tool

log = logging.getLogger(__name__)

# Two seconds of a quota may be used at once.
WINDOWS = {"quota.window.num": "3", "quota.window.size.seconds": "1"}
BURST_SECONDS = 2
RECORD = 5_000


class Target(NamedTuple):
    bootstrap: str

    def set_quota(self, client_id: str, name: str, value: float) -> None:
        entry = AlterClientQuotasRequestEntryData(
            [EntityData("client-id", client_id)], [OpData(name, value, False)]
        )
        with RawConnection(int(self.bootstrap.rpartition(":")[2])) as connection:
            answer: Any = connection.ask(AlterClientQuotasRequest([entry]), 1)
        assert answer.entries[0].error_code == 0


@pytest.fixture(scope="module")
def barnabas() -> Iterator[Target]:
    with EmbeddedBroker(WINDOWS) as broker:
        yield Target(broker.bootstrap_servers)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder: Path = tmp_path_factory.mktemp("kafka")
    with ApacheKafka(folder / "data", settings=WINDOWS) as running:
        yield Target(running.bootstrap_servers)


class Sent(NamedTuple):
    seconds: float
    throttles: list[float]
    """What librdkafka was told to wait, in seconds."""


def create(target: Target, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)


def produce(target: Target, topic: str, client_id: str, count: int) -> Sent:
    throttles: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": target.bootstrap,
            "client.id": client_id,
            "linger.ms": 5,
            "batch.size": 50_000,
            "throttle_cb": lambda event: throttles.append(event.throttle_time),
        }
    )
    producer.list_topics(topic, timeout=60)
    began = time.monotonic()
    for _ in range(count):
        producer.produce(topic, bytes(RECORD))
        producer.poll(0)
    assert producer.flush(120) == 0
    return Sent(time.monotonic() - began, throttles)


def consume(target: Target, topic: str, client_id: str, count: int) -> Sent:
    throttles: list[float] = []
    consumer = Consumer(
        {
            "bootstrap.servers": target.bootstrap,
            "client.id": client_id,
            "group.id": client_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 60_000,
            "throttle_cb": lambda event: throttles.append(event.throttle_time),
        }
    )
    consumer.subscribe([topic])
    left, began = count, 0.0
    try:
        while left:
            message = consumer.poll(60)
            assert message is not None
            assert message.error() is None, message.error()
            began = began or time.monotonic()
            left -= 1
        return Sent(time.monotonic() - began, throttles)
    finally:
        consumer.close()


def highest_rate(count: int, seconds: float) -> float:
    """Bytes per second without the initial burst: clients start with an empty window."""
    return count * RECORD / (seconds + BURST_SECONDS)


def test_librdkafka_is_throttled_to_the_rate_of_its_quota(barnabas: Target) -> None:
    create(barnabas, "short")
    kafka_configs(barnabas, "--add-config", "producer_byte_rate=400000,consumer_byte_rate=400000")
    sent = produce(barnabas, "short", "slow", 320)
    assert highest_rate(320, sent.seconds) < 400_000 * 1.15
    assert max(sent.throttles) > 0
    read = consume(barnabas, "short", "slow", 320)
    assert highest_rate(320, read.seconds) < 400_000 * 1.15
    assert max(read.throttles) > 0
    kafka_configs(barnabas, "--delete-config", "producer_byte_rate,consumer_byte_rate")
    assert not produce(barnabas, "short", "slow", 320).throttles


def kafka_configs(target: Target, *changes: str) -> None:
    run_tool(
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", target.bootstrap, "--alter", *changes),
        *("--entity-type", "clients", "--entity-name", "slow"),
    ).check()


def test_user_quota_applies_to_every_login_of_that_user() -> None:
    """With any client ids, and over TLS; other users are not throttled."""
    users = {"alice": "her secret", "bob": "his secret"}
    with EmbeddedBroker(WINDOWS, security="SASL_SSL", users=users) as broker:
        topic = broker.create_topic()
        set_quotas(broker, QuotaEntity("alice"), producer_byte_rate=50_000.0)
        throttles = {
            (user, client_id): throttles_of(broker.clients_of(user).confluent, client_id, topic)
            for user, client_id in (("alice", "one"), ("alice", "two"), ("bob", "one"))
        }
    assert throttles["alice", "two"], "what the first client used counts for the second one, too"
    assert not throttles["bob", "one"]


def throttles_of(settings: dict[str, Any], client_id: str, topic: str) -> list[float]:
    throttles: list[float] = []
    producer = Producer(
        {
            **settings,
            "client.id": client_id,
            "throttle_cb": lambda event: throttles.append(event.throttle_time),
        }
    )
    for _ in range(3):
        producer.produce(topic, bytes(30_000))
        assert producer.flush(60) == 0
    producer.poll(0)
    return throttles


# -- beside Apache Kafka --------------------------------------------------------------------------------

COUNT, QUOTA = 1_200, 500_000  # 6 MB: two seconds at once, and ten for the rest


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["producer_byte_rate", "consumer_byte_rate"])
def test_librdkafka_gets_the_rate_that_it_gets_of_kafka(barnabas: Target, kafka: Target, kind: str) -> None:
    seconds = []
    for target in (barnabas, kafka):
        topic = f"librdkafka-{kind}"
        create(target, topic)
        target.set_quota("limited", kind, QUOTA)
        sent = produce(target, topic, "limited" if kind.startswith("producer") else "free", COUNT)
        if kind.startswith("consumer"):
            sent = consume(target, topic, "limited", COUNT)
        assert sent.throttles
        seconds.append(sent.seconds)
    log.info("%s: %s seconds", kind, seconds)
    assert seconds[0] == pytest.approx(seconds[1], rel=0.15), seconds


def java_produce(target: Target, topic: str, client_id: str) -> float:
    """Records per second."""
    done = run_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(COUNT), "--record-size", str(RECORD), "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={target.bootstrap}", f"client.id={client_id}"),
        timeout=120,
    ).check()
    found = re.findall(r"([\d.]+) records/sec", done.stdout)
    return float(found[-1])


def java_consume(target: Target, topic: str, client_id: str, folder: Path) -> float:
    """Records per second."""
    config = folder / "consumer.properties"
    config.write_text(f"client.id={client_id}\nmax.partition.fetch.bytes=60000\nauto.offset.reset=earliest\n")
    done = run_tool(
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", target.bootstrap, "--topic", topic, "--messages", str(COUNT)),
        *("--group", client_id, "--consumer.config", str(config), "--timeout", "60000"),
        timeout=120,
    ).check()
    names, values = ([part.strip() for part in line.split(",")] for line in done.stdout.splitlines()[-2:])
    return float(dict(zip(names, values, strict=True))["nMsg.sec"])


@pytest.mark.extended
def test_javas_perf_tools_get_the_rates_that_they_get_of_kafka(
    barnabas: Target, kafka: Target, tmp_path: Path
) -> None:
    rates = []
    for target in (barnabas, kafka):
        create(target, "java")
        target.set_quota("java-producer", "producer_byte_rate", QUOTA)
        target.set_quota("java-consumer", "consumer_byte_rate", QUOTA)
        produced = java_produce(target, "java", "java-producer")
        rates.append((produced, java_consume(target, "java", "java-consumer", tmp_path)))
    log.info("%s records/s", rates)
    assert rates[0][0] == pytest.approx(rates[1][0], rel=0.15), rates
    assert rates[0][1] == pytest.approx(rates[1][1], rel=0.15), rates


@pytest.mark.parametrize("named", ["CLIENTS", "BROKERS"])
def test_an_address_has_its_rate_of_new_connections_on_the_listener_of_the_brokers_too(named: str) -> None:
    """Two per second, averaged over ten: the first twenty may arrive at once."""
    settings = {
        "listeners": "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
    }
    with EmbeddedBroker(settings) as running:
        set_quotas(running, QuotaEntity(ip="127.0.0.1"), connection_creation_rate=2.0)
        port = next(each.port for each in running.broker.sockets.listeners if each.name == named)
        with ExitStack() as stack:
            opened = [stack.enter_context(RawConnection(port)) for _ in range(60)]
            for connection in opened:
                with suppress(ConnectionError):
                    connection.send(frame_of(ApiVersionsRequest(), 0))
            served = sum(connection.receive() is not None for connection in opened)
    assert 10 < served < 30
