"""Consumers read from a replica in their rack if configured (KIP-392), and only then."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.replication.test_brokers import create
from tests.support.clusters import Brokers
from tests.support.waiting import until

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.mark.parametrize("selector", [SELECTOR, None])
def test_a_consumer_reads_from_its_rack(tmp_path: Path, selector: str | None) -> None:
    settings = {"replica.selector.class": selector} if selector else {}
    with Brokers(tmp_path, settings=settings) as brokers:
        create(brokers, "orders")
        state = brokers.state("orders")
        near = next(member for member in state.replicas if member != state.leader)
        producer = Producer({"bootstrap.servers": brokers.bootstrap_servers, "acks": "all"})
        for number in range(100):
            producer.produce("orders", str(number).encode())
        assert producer.flush(60) == 0
        assert _read(brokers, f"rack-{near}", 100) == list(range(100))
        sent = {number: _bytes_out(brokers, number) for number in brokers.brokers}
        assert (sent[near] > 0) == (selector is not None)
        assert (sent[state.leader] > 0) == (selector is None)


def _read(brokers: Brokers, rack: str, count: int) -> list[int]:
    consumer = Consumer(
        {"bootstrap.servers": brokers.bootstrap_servers, "group.id": "near", "client.rack": rack}
    )
    consumer.assign([TopicPartition("orders", 0, 0)])
    values: list[int] = []

    def poll() -> bool:
        message = consumer.poll(0.5)
        if message is not None and not message.error():
            values.append(int(message.value() or b""))
        return len(values) >= count

    try:
        until(poll, "not everything can be read")
    finally:
        consumer.close()
    return values


def _bytes_out(brokers: Brokers, number: int) -> float:
    partition = brokers.brokers[number].replicas.find("orders", 0)
    return partition.counters.bytes_out.value if partition is not None else 0
