"""`barnabas console --exporter-only` on both brokers, compared with Kafka's tools."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.client.addresses import Address
from barnabas.client.cluster import Client
from barnabas.client.groups import commit_offsets
from barnabas.common.loop_thread import LoopThread
from barnabas.common.types import TopicPartition
from barnabas.network import new_event_loop
from barnabas.services.console.exporter.server import ExporterServer
from barnabas.services.console.settings import ClusterSettings
from barnabas.testing import EmbeddedBroker
from tests.support.kafka.broker import ApacheKafka
from tests.support.kafka.tools import run_tool
from tests.support.waiting import eventually

TIMEOUT = 60.0
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture(params=["barnabas", pytest.param("apache", marks=pytest.mark.java)])
def bootstrap(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "barnabas":
        with EmbeddedBroker() as broker:
            yield broker.bootstrap_servers
    else:
        with ApacheKafka(tmp_path / "kafka") as kafka:
            yield kafka.bootstrap_servers


@contextmanager
def exporter(bootstrap: str, **settings: str) -> Iterator[ExporterServer]:
    loop = LoopThread("exporter", new_event_loop())

    async def start() -> ExporterServer:
        server = ExporterServer(ClusterSettings("default", bootstrap), Address("127.0.0.1", 0), **settings)
        await server.start()
        return server

    try:
        server = loop.run(start())
        try:
            yield server
        finally:
            loop.run(server.stop())
    finally:
        loop.close()


def page(url: str, **headers: str) -> dict[str, float]:
    with urlopen(Request(url, headers=headers), timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for line in lines if line[0] != "#" for name, value in [line.rsplit(" ", 1)]}


def _fill(bootstrap: str) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic("orders", 3, 1)])["orders"].result(TIMEOUT)
    producer = Producer(settings)
    for number in range(30):
        producer.produce("orders", str(number).encode(), partition=number % 3)
    producer.flush()
    asyncio.run(
        _commit(bootstrap, "billing", {TopicPartition("orders", 0): 4, TopicPartition("orders", 1): 10})
    )


async def _commit(bootstrap: str, group: str, offsets: dict[TopicPartition, int]) -> None:
    """Retry until there is a coordinator, which a new cluster lacks."""
    async with Client(bootstrap) as client:
        await commit_offsets(client, group, offsets)


@contextmanager
def _member(bootstrap: str) -> Iterator[None]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
    member = Consumer({**settings, "enable.auto.commit": False})
    member.subscribe(["orders"])
    record = eventually(lambda: member.poll(0.2), lambda polled: polled is not None, every=0)
    assert record is not None
    member.commit(message=record, asynchronous=False)
    try:
        yield
    finally:
        member.close()


def lag_as_kafka_says(bootstrap: str, group: str) -> dict[tuple[str, str], tuple[str, str, str]]:
    done = run_tool(GROUPS, "--bootstrap-server", bootstrap, "--describe", "--group", group).check()
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(group)]
    return {(row[1], row[2]): (row[3], row[4], row[5]) for row in rows if row[3] != "-"}


def test_page_equals_the_output_of_kafkas_tools(bootstrap: str) -> None:
    _fill(bootstrap)
    with _member(bootstrap), exporter(bootstrap) as server:
        found = eventually(
            lambda: page(server.url),
            lambda figures: 'kafka_consumergroup_members{consumergroup="readers"}' in figures,
        )
        billing = _of_group(found, "billing")
        readers = _of_group(found, "readers")
    assert found["kafka_brokers"] == 1
    assert found['kafka_topic_partitions{topic="orders"}'] == 3
    for partition in range(3):
        assert found[f'kafka_topic_partition_current_offset{{topic="orders",partition="{partition}"}}'] == 10
        assert (
            found[f'kafka_topic_partition_leader_is_preferred{{topic="orders",partition="{partition}"}}'] == 1
        )
    assert found['kafka_consumergroup_members{consumergroup="readers"}'] == 1
    assert found['kafka_consumergroup_members{consumergroup="billing"}'] == 0
    assert found['kafka_consumergroup_lag_sum{consumergroup="billing",topic="orders"}'] == 6
    assert found['kafka_consumergroup_current_offset_sum{consumergroup="billing",topic="orders"}'] == 14
    # No commit, no sample: kafka_exporter writes -1.
    assert billing.keys() == {("orders", "0"), ("orders", "1")}
    late = found['kafka_consumergroup_lag_seconds{consumergroup="billing",topic="orders",partition="0"}']
    assert 0 < late < 600
    assert found['kafka_consumergroup_lag_seconds{consumergroup="billing",topic="orders",partition="1"}'] == 0
    assert billing == lag_as_kafka_says(bootstrap, "billing")
    assert readers == lag_as_kafka_says(bootstrap, "readers")


def _of_group(found: dict[str, float], group: str) -> dict[tuple[str, str], tuple[str, str, str]]:
    """Committed, end and lag, by topic and partition, from three metrics."""
    rows = {}
    for partition in ("0", "1", "2"):
        place = f'topic="orders",partition="{partition}"'
        labels = f'{{consumergroup="{group}",{place}}}'
        if f"kafka_consumergroup_lag{labels}" in found:
            numbers = (
                found[f"kafka_consumergroup_current_offset{labels}"],
                found[f"kafka_topic_partition_current_offset{{{place}}}"],
                found[f"kafka_consumergroup_lag{labels}"],
            )
            committed, end, lag = (str(int(number)) for number in numbers)
            rows["orders", partition] = (committed, end, lag)
    return rows


def test_token_page_requires_a_token(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("# the scraper\nsecret\n")
    with EmbeddedBroker() as broker, exporter(broker.bootstrap_servers, tokens_file=str(tokens)) as server:
        with pytest.raises(HTTPError) as refused:
            page(server.url)
        assert refused.value.code == 401
        refused.value.close()
        assert "barnabas_console_snapshot_age_seconds" in page(server.url, Authorization="Bearer secret")


def test_an_unreachable_cluster_has_no_metrics_and_is_unhealthy() -> None:
    with exporter("127.0.0.1:1") as server:
        assert not [name for name in page(server.url) if name.startswith("kafka_")]
        with pytest.raises(HTTPError) as unhealthy:
            page(server.url.replace("/metrics", "/health"))
        assert unhealthy.value.code == 503
        unhealthy.value.close()


def test_metrics_are_published_for_the_pipeline_operations() -> None:
    with EmbeddedBroker() as broker:
        _fill(broker.bootstrap_servers)
        with exporter(broker.bootstrap_servers, publish_metrics="ops") as server:
            reports = _read_reports(broker.bootstrap_servers)
            assert server.watch.known.snapshot.brokers
    assert reports["kafka/default"]["brokers"] == 1
    assert reports["kafka/default/group/billing"]["lag"] == 6
    assert reports["kafka/default/topic/orders"]["kind"] == "topic"
    assert all(isinstance(report["time"], int) for report in reports.values())


def _read_reports(bootstrap: str) -> dict[str, dict[str, object]]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "test", "auto.offset.reset": "earliest"}
    reader = Consumer({**settings, "enable.auto.commit": False, "topic.metadata.refresh.interval.ms": 200})
    reader.subscribe(["ops"])
    found: dict[str, dict[str, object]] = {}
    deadline = time.monotonic() + TIMEOUT
    while "kafka/default/group/billing" not in found:
        assert time.monotonic() < deadline, found
        record = reader.poll(0.2)
        if record is not None and record.error() is None:
            report = json.loads(record.value() or b"")
            assert (record.key() or b"").decode() == report["service"]
            found[report["service"]] = report
    reader.close()
    return found


def test_the_exporter_works_without_the_extra_console() -> None:
    script = (
        "import sys, barnabas.services.console.exporter.server; "
        "print(*sorted({'jinja2', 'uvicorn', 'pyarrow', 'numba'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
