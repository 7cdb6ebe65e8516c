"""Three brokers and a real client: acknowledged records survive the loss of any broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clusters import Brokers
from tests.support.waiting import until


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path) as running:
        yield running


def create(brokers: Brokers, topic: str, partitions: int = 1, min_isr: int = 2) -> None:
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap_servers})
    wanted = NewTopic(topic, partitions, 3, config={"min.insync.replicas": str(min_isr)})
    admin.create_topics([wanted])[topic].result(60)
    brokers.until_in_sync(topic, 3)


def read_all(brokers: Brokers, topic: str, partitions: int = 1) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": brokers.bootstrap_servers,
            "group.id": "reader",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    values: list[bytes] = []
    ended: set[int | None] = set()
    while len(ended) < partitions:
        message = consumer.poll(20)
        assert message is not None
        error = message.error()
        if error is not None:  # a broker that was restarted causes others; a partition may end more than once
            if error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
        else:
            values.append(message.value() or b"")
    consumer.close()
    return values


def test_produced_records_are_on_all_three_brokers_and_readable(brokers: Brokers) -> None:
    create(brokers, "orders", partitions=3)
    producer = Producer({"bootstrap.servers": brokers.bootstrap_servers, "acks": "all"})
    for number in range(300):
        producer.produce("orders", str(number).encode())
    assert producer.flush(60) == 0
    assert sorted(map(int, read_all(brokers, "orders", 3))) == list(range(300))
    for broker in brokers.brokers.values():
        assert sum(partition.log.log_end_offset for partition in broker.replicas) == 300


class Writing:
    """A producer that writes numbers until it is stopped, and records acknowledgements."""

    def __init__(self, brokers: Brokers, topic: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": brokers.bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "message.timeout.ms": 60_000,
                "linger.ms": 2,
            }
        )
        self._topic = topic
        self._stop = Event()
        self.acknowledged: list[int] = []
        self.failed: list[str] = []
        self._thread = Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._stop.is_set():
            self._producer.produce(self._topic, str(number).encode(), on_delivery=self._delivered)
            self._producer.poll(0.002)
            number += 1

    def _delivered(self, error: object, message: Any) -> None:
        if error is None:
            self.acknowledged.append(int(message.value()))
        else:
            self.failed.append(str(error))

    def write_more(self, brokers: Brokers, count: int = 50) -> None:
        """Wait until that many more are acknowledged."""
        goal = len(self.acknowledged) + count
        until(lambda: len(self.acknowledged) >= goal or bool(self.failed), "nothing is acknowledged")

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        assert self.failed == []


@pytest.mark.parametrize("victim", ["leader", "follower", "controller"])
def test_nothing_acknowledged_is_lost_when_a_broker_is_killed_and_comes_back(
    brokers: Brokers, victim: str
) -> None:
    create(brokers, "orders")
    writing = Writing(brokers, "orders")
    writing.write_more(brokers)
    state = brokers.state("orders")
    number = {
        "leader": state.leader,
        "follower": next(member for member in state.replicas if member != state.leader),
        "controller": brokers.controller,
    }[victim]
    brokers.kill(number)
    writing.write_more(brokers)
    brokers.start(number)
    brokers.until_in_sync("orders", 3)
    writing.write_more(brokers)
    writing.finish()
    assert [int(value) for value in read_all(brokers, "orders")] == sorted(writing.acknowledged)
    assert_replicas_are_equal(brokers, "orders")


def test_acknowledged_records_survive_kills_of_all_brokers_in_turn(brokers: Brokers) -> None:
    create(brokers, "orders")
    writing = Writing(brokers, "orders")
    for number in (1, 2, 3):
        writing.write_more(brokers)
        brokers.kill(number)
        writing.write_more(brokers)
        brokers.start(number)
        brokers.until_in_sync("orders", 3)
    writing.finish()
    assert [int(value) for value in read_all(brokers, "orders")] == sorted(writing.acknowledged)
    assert_replicas_are_equal(brokers, "orders")


def test_a_clean_restart_of_every_broker_gives_no_producer_an_error(brokers: Brokers) -> None:
    create(brokers, "orders", partitions=3)
    writing = Writing(brokers, "orders")
    for number in (1, 2, 3):
        writing.write_more(brokers)
        brokers.stop(number)
        writing.write_more(brokers)
        brokers.start(number)
        brokers.until_in_sync("orders", 3)
    writing.finish()
    assert sorted(int(value) for value in read_all(brokers, "orders", 3)) == sorted(writing.acknowledged)


def assert_replicas_are_equal(brokers: Brokers, topic: str, index: int = 0) -> None:
    def contents() -> list[bytes]:
        logs = [broker.replicas.by_name[topic][index].log for broker in brokers.brokers.values()]
        return [b"".join(segment.file.read(segment.size, 0) for segment in log.segments) for log in logs]

    until(lambda: len(set(contents())) == 1, "the replicas differ")
