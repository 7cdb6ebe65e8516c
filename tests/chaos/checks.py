"""Invariants of a cluster after faults."""

from __future__ import annotations

from collections import Counter

from confluent_kafka import Consumer, TopicPartition

from barnabas.testing.client_settings import ClientSettings
from tests.chaos import java
from tests.chaos.cluster import ChaosCluster
from tests.chaos.loads import PARTITIONS, Load
from tests.chaos.tiers import check_tiers
from tests.support.waiting import SECONDS, until


def check(cluster: ChaosCluster, topic: str, load: Load) -> None:
    check_records(cluster.clients, topic, load)
    until(lambda: replicas_are_equal(cluster, topic), "all replicas hold the same bytes")
    if cluster.store is not None:
        check_tiers(cluster, topic)


def check_records(clients: ClientSettings, topic: str, load: Load) -> None:
    """Records are there as they were acknowledged, for both clients."""
    found = read_all(clients, topic)
    for partition in range(PARTITIONS):
        _check_partition(found[partition], load.acknowledged[partition], load, partition)
    if load.client == java.CLIENT:
        assert java.read_all(clients, topic) == found, "Kafka's consumer sees something else"


def _check_partition(found: list[int], acknowledged: list[int], load: Load, partition: int) -> None:
    doubled = [value for value, times in Counter(found).items() if times > 1]
    assert not doubled, f"partition {partition} holds twice: {doubled[:10]}"
    lost = sorted(set(acknowledged) - set(found))
    assert not lost, f"partition {partition} lost {len(lost)} acknowledged records: {lost[:10]}"
    visible = sorted(load.aborted & set(found))
    assert not visible, f"partition {partition} shows aborted records: {visible[:10]}"
    strange = sorted(set(found) - set(acknowledged) - load.unknown)
    assert not strange, f"partition {partition} holds what nobody was told of: {strange[:10]}"
    assert found == sorted(found), f"partition {partition} is out of order"


def read_all(clients: ClientSettings, topic: str) -> dict[int, list[int]]:
    """All committed records by partition."""
    return {partition: _read(clients, topic, partition) for partition in range(PARTITIONS)}


def _read(clients: ClientSettings, topic: str, partition: int) -> list[int]:
    consumer = Consumer(
        {
            **clients.confluent,
            "group.id": "checker",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    values: list[int] = []
    while True:
        message = consumer.poll(SECONDS)
        assert message is not None, f"partition {partition} cannot be read"
        if message.error() is not None:  # the end of the log, the only expected error
            break
        values.append(int(message.value() or b""))
    consumer.close()
    return values


def replicas_are_equal(cluster: ChaosCluster, topic: str) -> bool:
    return all(_are_equal(_copies(cluster, topic, partition)) for partition in range(PARTITIONS))


def _are_equal(copies: list[bytes]) -> bool:
    """Compare the common range: local parts of a tiered topic differ in length."""
    longest = max(copies, key=len)
    return all(longest.endswith(copy) for copy in copies)


def _copies(cluster: ChaosCluster, topic: str, partition: int) -> list[bytes]:
    return [
        b"".join(path.read_bytes() for path in sorted((broker.folder / f"{topic}-{partition}").glob("*.log")))
        for broker in cluster.brokers.values()
        if (broker.folder / f"{topic}-{partition}").exists()
    ]
