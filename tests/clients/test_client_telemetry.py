"""Clients push metrics to the broker, which exports them (KIP-714)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer

from barnabas.testing import EmbeddedBroker
from tests.support.kafka.jars import NEWEST_CLIENT_LIBS
from tests.support.kafka.tools import run_tool
from tests.support.programs import free_port
from tests.support.waiting import eventually

TIMEOUT = 60.0
CLIENT_METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
CONFIGS = "kafka.admin.ConfigCommand"
PROGRAMS = Path(__file__).parent / "java"
PARTITIONS = 200
POINTS_OF_A_CONSUMER = 90 + 7 * PARTITIONS


class Broker:
    def __init__(self, bootstrap: str, port: int) -> None:
        self.bootstrap = bootstrap
        self._port = port

    def subscribe(self, metrics: str) -> None:
        """As an administrator does, with Kafka's own tool."""
        words = ("--alter", "--name", "all", "--metrics", metrics, "--interval", "200")
        run_tool(CLIENT_METRICS, "--bootstrap-server", self.bootstrap, *words).check()

    def fill_partitions(self) -> None:
        """A consumer has no metrics of partitions without records."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.metrics.push": False})
        for partition in range(PARTITIONS):
            producer.produce("orders", b"one", partition=partition)
        assert producer.flush(TIMEOUT) == 0

    def metrics(self) -> list[str]:
        return [line for line in self.page() if line.startswith("kafka_client_")]

    def pushes(self) -> int:
        count = 'barnabas_request_seconds_count{request="PushTelemetry"} '
        return sum(int(line.removeprefix(count)) for line in self.page() if line.startswith(count))

    def page(self) -> list[str]:
        with urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=30) as answer:
            page: str = answer.read().decode()
            return page.splitlines()


@contextmanager
def running(**settings: str) -> Iterator[Broker]:
    port = free_port()
    named = {name.replace("_", "."): value for name, value in settings.items()}
    with EmbeddedBroker({"barnabas.metrics.listen": f"127.0.0.1:{port}", **named}) as embedded:
        embedded.create_topic("orders", partitions=PARTITIONS)
        yield Broker(embedded.bootstrap_servers, port)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with running() as started:
        yield started


@contextmanager
def java(program: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A client that ends when the block does."""
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{NEWEST_CLIENT_LIBS}/*", str(PROGRAMS / program)]
    with subprocess.Popen(
        [*command, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdin is not None
        try:
            yield client
        finally:
            client.stdin.write("end\n")
            client.stdin.close()
            client.wait(TIMEOUT)


@pytest.mark.java
def test_librdkafka_pushes_requested_metrics_until_they_are_deleted(broker: Broker) -> None:
    broker.subscribe("org.apache.kafka.producer.connection.creation.,org.apache.kafka.producer.node.")
    producers = [Producer({"bootstrap.servers": broker.bootstrap, "client.id": "shop"})]

    def produce() -> None:
        producers[0].produce("orders", b"one")
        producers[0].flush(1)

    found = eventually(broker.metrics, bool, meanwhile=produce)
    assert all('client_id="shop"' in line for line in found)
    assert any(line.startswith("kafka_client_producer_connection_creation_") for line in found)
    producers.clear()
    eventually(broker.metrics, lambda lines: not lines)


@pytest.mark.java
def test_the_newest_client_of_java_pushes_its_metrics(broker: Broker) -> None:
    broker.subscribe("*")
    with java("PushMetrics.java", broker.bootstrap, "till") as client:
        assert client.stdout is not None
        instance_id = client.stdout.readline().strip()
        found = eventually(
            broker.metrics, lambda lines: any(line.startswith("kafka_client_producer_") for line in lines)
        )
    assert any(f'client_instance_id="{instance_id}"' in line and 'client_id="till"' in line for line in found)


@pytest.mark.java
def test_a_java_consumer_of_many_partitions_pushes_as_many_points_as_are_allowed() -> None:
    with running(barnabas_telemetry_max_points=str(POINTS_OF_A_CONSUMER + 20)) as broker:
        broker.subscribe("*")
        broker.fill_partitions()
        with java("PushConsumerMetrics.java", broker.bootstrap, "orders", str(PARTITIONS)):
            eventually(
                broker.metrics, lambda lines: sum("_records_lag_max{" in line for line in lines) >= PARTITIONS
            )
            assert len(broker.metrics()) > POINTS_OF_A_CONSUMER - 20


@pytest.mark.java
def test_a_java_client_whose_metrics_are_too_large_tries_again() -> None:
    with running(barnabas_telemetry_max_points="10") as broker:
        broker.subscribe("*")
        with java("PushMetrics.java", broker.bootstrap, "till"):
            eventually(broker.pushes, lambda pushes: pushes >= 3)
            # Series are shown for three intervals: those of three pushes, of which none may have more points.
            assert len(broker.metrics()) <= 3 * 10
