"""Real clients on three brokers with a real ZooKeeper, while brokers stop, die and are isolated."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.testing import EmbeddedCluster
from tests.support.kafka.jars import requires_java
from tests.support.kafka.tools import run_tool
from tests.support.proxies import Proxy
from tests.support.waiting import until
from tests.support.zookeeper import require_zookeeper

DEADLINE = 60.0
SHORT_SESSIONS = {"zookeeper.session.timeout.ms": "3000"}


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    require_zookeeper()
    with EmbeddedCluster(brokers=3, settings=SHORT_SESSIONS) as running:
        yield running


class Load:
    """An idempotent producer; acknowledged records in the order of sending."""

    def __init__(self, cluster: EmbeddedCluster, topic: str) -> None:
        self.acknowledged: dict[int, list[int]] = {}
        self.failed: list[str] = []
        self._topic = topic
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": 60_000,
                "topic.metadata.refresh.interval.ms": 1000,
            }
        )
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join(DEADLINE)
        assert self._producer.flush(DEADLINE) == 0

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            self._producer.produce(
                self._topic, str(number).encode(), partition=number % 3, on_delivery=self._told
            )
            self._producer.poll(0.002)
            number += 1

    def _told(self, error: object, message: object) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            values = self.acknowledged.setdefault(message.partition(), [])  # type: ignore[attr-defined]
            values.append(int(message.value() or b""))  # type: ignore[attr-defined]

    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def go_on(self, more: int = 100) -> None:
        """Wait until this many more records have been acknowledged."""
        wanted = self.count() + more
        until(lambda: self.count() >= wanted)


def read_all(cluster: EmbeddedCluster, topic: str) -> dict[int, list[int]]:
    """Everything from the beginning to the high watermark, by partition."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader"})
    found: dict[int, list[int]] = {}
    for partition in range(3):
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=DEADLINE)
        consumer.assign([TopicPartition(topic, partition, 0)])
        values = found[partition] = []
        while len(values) < end:
            message = consumer.poll(DEADLINE)
            assert message is not None
            assert message.error() is None
            values.append(int(message.value() or b""))
    consumer.close()
    return found


def assert_nothing_lost_or_doubled(load: Load, cluster: EmbeddedCluster, topic: str) -> None:
    assert load.failed == []
    found = read_all(cluster, topic)
    for partition, acknowledged in load.acknowledged.items():
        assert acknowledged == sorted(acknowledged)
        assert found[partition] == acknowledged, Counter(found[partition]) - Counter(acknowledged)


def in_sync(cluster: EmbeddedCluster, topic: str) -> bool:
    states = cluster.running[0].broker.image.topics[topic].partitions
    return all(len(state.isr) == 3 for state in states)


def new_topic(cluster: EmbeddedCluster) -> str:
    return cluster.create_topic(partitions=3, configs={"min.insync.replicas": "2"})


@pytest.mark.slow
def test_rolling_restart_under_load(cluster: EmbeddedCluster) -> None:
    topic = new_topic(cluster)
    with Load(cluster, topic) as load:
        for broker in cluster.brokers.values():
            load.go_on()
            broker.restart()
            until(lambda: in_sync(cluster, topic))
        load.go_on()
    assert_nothing_lost_or_doubled(load, cluster, topic)


@pytest.mark.slow
@pytest.mark.parametrize("role", ["leader", "controller"])
def test_a_broker_dies_under_load(cluster: EmbeddedCluster, role: str) -> None:
    topic = new_topic(cluster)
    with Load(cluster, topic) as load:
        load.go_on()
        dead = cluster.leader_of(topic) if role == "leader" else cluster.controller()
        cluster.kill(dead)
        load.go_on(1000)
        cluster.brokers[dead].start()
        until(lambda: in_sync(cluster, topic))
        load.go_on()
    assert_nothing_lost_or_doubled(load, cluster, topic)


@pytest.mark.slow
def test_zookeeper_restarts_under_load(cluster: EmbeddedCluster) -> None:
    topic = new_topic(cluster)
    with Load(cluster, topic) as load:
        load.go_on()
        cluster.zookeeper.stop()
        load.go_on(200)  # leaders continue without it: no decision is needed
        cluster.zookeeper.start()
        load.go_on(200)
        until(lambda: in_sync(cluster, topic))
        assert cluster.create_topic("made-afterwards") == "made-afterwards"
    assert_nothing_lost_or_doubled(load, cluster, topic)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["freeze", pytest.param("cut", marks=pytest.mark.extended)])
def test_a_leader_that_is_cut_off_from_zookeeper_is_fenced_and_comes_back(fault: str) -> None:
    require_zookeeper()
    cluster = EmbeddedCluster(brokers=3, settings=SHORT_SESSIONS)
    with Proxy(cluster.zookeeper.host, cluster.zookeeper.port) as proxy:
        cut_off = cluster.brokers[1]
        cut_off.settings["zookeeper.connect"] = f"{proxy.address}/cluster"
        with cluster:
            topic = cluster.create_topic(partitions=3, configs={"min.insync.replicas": "2"})
            with Load(cluster, topic) as load:
                load.go_on()
                getattr(proxy, fault)()
                other = cluster.brokers[2]
                until(lambda: other.broker.image.brokers[1].fenced)
                assert cut_off.broker.is_fenced
                load.go_on(1000)
                proxy.heal()
                until(lambda: not other.broker.image.brokers[1].fenced)
                until(lambda: not cut_off.broker.is_fenced)
                until(lambda: in_sync(cluster, topic))
                load.go_on()
            assert_nothing_lost_or_doubled(load, cluster, topic)


@pytest.mark.slow
@pytest.mark.parametrize(
    "protocol", [{"session.timeout.ms": 10_000}, {"group.protocol": "consumer"}], ids=["classic", "consumer"]
)
def test_group_continues_when_its_coordinator_dies(
    cluster: EmbeddedCluster, protocol: dict[str, object]
) -> None:
    topic = new_topic(cluster)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "workers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **protocol,
        }
    )
    consumer.subscribe([topic])
    seen: Counter[int] = Counter()

    def read(count: int) -> None:
        wanted = len(seen) + count
        deadline = time.monotonic() + DEADLINE
        while len(seen) < wanted:
            assert time.monotonic() < deadline
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                seen[int(message.value() or b"")] += 1
        consumer.commit(asynchronous=False)

    with Load(cluster, topic) as load:
        read(100)
        dead = cluster.leader_of("__consumer_offsets")
        cluster.kill(dead)
        read(100)
        until(lambda: cluster.leader_of("__consumer_offsets") not in (dead, -1))
        cluster.brokers[dead].start()
        load.go_on()
        read(100)
    committed = consumer.committed(
        [TopicPartition(topic, partition) for partition in range(3)], timeout=DEADLINE
    )
    consumer.close()
    assert sum(max(0, part.offset) for part in committed) >= len(seen)


@requires_java
def test_kafkas_own_tools_see_the_cluster(cluster: EmbeddedCluster) -> None:
    at = ("--bootstrap-server", cluster.bootstrap_servers)
    made = ("--create", "--topic", "tooled", "--partitions", "3", "--replication-factor", "3")
    run_tool("org.apache.kafka.tools.TopicCommand", *at, *made).check()
    sent = run_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", "tooled", "--num-records", "1000", "--record-size", "100", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={cluster.bootstrap_servers}", "acks=all"),
    ).check()
    assert "1000 records sent" in sent.stdout
    described = run_tool(
        "org.apache.kafka.tools.TopicCommand", *at, "--describe", "--topic", "tooled"
    ).check()
    assert described.stdout.count("Isr: ") == 3
    assert {line.split("Leader: ")[1][0] for line in described.stdout.splitlines() if "Leader: " in line} == {
        "1",
        "2",
        "3",
    }
    offsets = run_tool("org.apache.kafka.tools.GetOffsetShell", *at, "--topic", "tooled").check()
    assert sum(int(line.rpartition(":")[2]) for line in offsets.stdout.split()) == 1000
