"""Several brokers and a real ZooKeeper in a test."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.cluster.zookeeper.process import answers
from barnabas.testing import EmbeddedCluster
from tests.support.waiting import until
from tests.support.zookeeper import require_zookeeper

DEADLINE = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    require_zookeeper()
    with EmbeddedCluster(brokers=3) as running:
        yield running


def produce(cluster: EmbeddedCluster, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    failures: list[object] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(DEADLINE) == 0
    assert failures == []


def consume(cluster: EmbeddedCluster, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline = time.monotonic() + DEADLINE
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message.value() or b"")
    consumer.close()
    return found


def test_three_brokers_are_ready_after_less_than_four_seconds_of_work() -> None:
    """Not elapsed time: this depends on the cluster, not on the load."""
    require_zookeeper()
    before = os.times()
    with EmbeddedCluster(brokers=3) as cluster:
        assert len(cluster.running) == 3
    after = os.times()
    # ZooKeeper is a child that has ended.
    assert sum(after[:4]) - sum(before[:4]) < 4


def test_topics_are_replicated_and_real_clients_work(cluster: EmbeddedCluster) -> None:
    topic = cluster.create_topic(partitions=6)
    until(lambda: topic in cluster.brokers[1].broker.image.topics)
    state = cluster.brokers[1].broker.image
    assert {len(partition.replicas) for partition in state.topics[topic].partitions} == {3}
    assert {partition.leader for partition in state.topics[topic].partitions} == {1, 2, 3}
    values = [str(number).encode() for number in range(1000)]
    produce(cluster, topic, values)
    assert sorted(consume(cluster, topic, 1000)) == sorted(values)


def test_any_broker_of_the_cluster_creates_topics(cluster: EmbeddedCluster) -> None:
    for broker in cluster.brokers.values():
        name = broker.create_topic(f"made-by-{broker.port}")
        until(lambda name=name: all(name in other.broker.image.topics for other in cluster.running))  # type: ignore[misc]
        assert len({other.broker.image.topics[name].topic_id for other in cluster.running}) == 1


@pytest.mark.slow
def test_records_survive_the_death_of_their_leader() -> None:
    require_zookeeper()
    with EmbeddedCluster(brokers=3, settings={"zookeeper.session.timeout.ms": "3000"}) as cluster:
        topic = cluster.create_topic(configs={"min.insync.replicas": "2"})
        before = [f"before-{number}".encode() for number in range(200)]
        after = [f"after-{number}".encode() for number in range(200)]
        produce(cluster, topic, before)
        dead = cluster.leader_of(topic)
        cluster.kill(dead)
        produce(cluster, topic, after)
        assert cluster.leader_of(topic) != dead
        assert consume(cluster, topic, 400) == before + after
        cluster.brokers[dead].start()
        until(lambda: len(_isr(cluster, topic)) == 3)


def _isr(cluster: EmbeddedCluster, topic: str) -> tuple[int, ...]:
    state = cluster.running[0].broker.image.partition(topic, 0)
    assert state is not None
    return state.isr


def test_nothing_is_left_behind() -> None:
    require_zookeeper()
    threads = set(threading.enumerate())
    with EmbeddedCluster(brokers=2) as cluster:
        folder: Path = cluster.brokers[1].data_dir
        zookeeper = cluster.zookeeper
    assert not folder.exists()
    assert not answers(zookeeper.host, zookeeper.port)
    until(lambda: set(threading.enumerate()) <= threads)
