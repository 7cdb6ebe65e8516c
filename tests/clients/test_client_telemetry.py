"""Clients push their metrics to the broker, and monitoring sees them (KIP-714)."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer

from barnabas.testing import EmbeddedBroker
from tests.apache_kafka import free_port, run_tool
from tests.kafka_jars import NEWEST_CLIENT_LIBS

PATIENCE = 60.0
CLIENT_METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
CONFIGS = "kafka.admin.ConfigCommand"
PROGRAM = Path(__file__).parent / "java" / "PushMetrics.java"


class Broker:
    def __init__(self, bootstrap: str, port: int) -> None:
        self.bootstrap = bootstrap
        self._port = port

    def subscribe(self, metrics: str) -> None:
        """As an administrator does, with Kafka's own tool."""
        words = ("--alter", "--name", "all", "--metrics", metrics, "--interval", "200")
        run_tool(CLIENT_METRICS, "--bootstrap-server", self.bootstrap, *words).check()

    def metrics(self) -> list[str]:
        with urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=30) as answer:
            return [line for line in answer.read().decode().splitlines() if line.startswith("kafka_client_")]

    def until(self, is_there: Callable[[list[str]], bool], meanwhile: Callable[[], object]) -> list[str]:
        deadline = time.monotonic() + PATIENCE
        while not is_there(found := self.metrics()):
            assert time.monotonic() < deadline, found
            meanwhile()
        return found


@pytest.fixture
def broker() -> Iterator[Broker]:
    port = free_port()
    with EmbeddedBroker({"barnabas.metrics.listen": f"127.0.0.1:{port}"}) as embedded:
        embedded.create_topic("orders")
        yield Broker(embedded.bootstrap_servers, port)


@pytest.mark.java
def test_librdkafka_pushes_what_it_is_asked_for_until_it_is_gone(broker: Broker) -> None:
    broker.subscribe("org.apache.kafka.producer.connection.creation.,org.apache.kafka.producer.node.")
    producers = [Producer({"bootstrap.servers": broker.bootstrap, "client.id": "shop"})]

    def produce() -> None:
        producers[0].produce("orders", b"one")
        producers[0].flush(1)

    found = broker.until(bool, produce)
    assert all('client_id="shop"' in line for line in found)
    assert any(line.startswith("kafka_client_producer_connection_creation_") for line in found)
    producers.clear()
    broker.until(lambda lines: not lines, lambda: time.sleep(0.05))


@pytest.mark.java
def test_the_newest_client_of_java_pushes_its_metrics(broker: Broker) -> None:
    broker.subscribe("*")
    command = [
        "java",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{NEWEST_CLIENT_LIBS}/*",
        str(PROGRAM),
        broker.bootstrap,
        "till",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        instance_id = client.stdout.readline().strip()
        found = broker.until(
            lambda lines: any(line.startswith("kafka_client_producer_") for line in lines),
            lambda: time.sleep(0.05),
        )
        client.stdin.write("end\n")
        client.stdin.close()
        client.wait(PATIENCE)
    assert any(f'client_instance_id="{instance_id}"' in line and 'client_id="till"' in line for line in found)
