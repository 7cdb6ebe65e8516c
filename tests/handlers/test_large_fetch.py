"""Fetches of very many partitions, read in slices; here a few count as many."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.common.clock import TurnLimit
from barnabas.handlers.fetch import attempt
from barnabas.testing import EmbeddedBroker

PARTITIONS = 12
RECORDS = 300
TIMEOUT = 60


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedBroker]:
    monkeypatch.setattr(attempt, "READ_AT_ONCE", 2)
    monkeypatch.setattr(attempt, "STEP", 1)
    monkeypatch.setattr("barnabas.network.requests.time_slices.LIMIT", TurnLimit(seconds=0.0))
    with EmbeddedBroker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("many", PARTITIONS, 1)])["many"].result(TIMEOUT)
        yield broker


def produce(broker: EmbeddedBroker, first: int, last: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 1})
    for number in range(first, last):
        producer.produce("many", str(number), partition=number % PARTITIONS)
    assert producer.flush(TIMEOUT) == 0


def take(consumer: Consumer, count: int) -> set[int]:
    taken: set[int] = set()
    while len(taken) < count:
        records = consumer.consume(count, timeout=TIMEOUT)
        assert records, f"nothing came after {len(taken)} records"
        taken |= {int(record.value() or b"") for record in records}
    return taken


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_every_record_arrives_whether_it_was_there_or_comes_while_a_fetch_waits(
    broker: EmbeddedBroker, isolation: str
) -> None:
    produce(broker, 0, RECORDS)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "large",
            "isolation.level": isolation,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition("many", index, 0) for index in range(PARTITIONS)])
    assert take(consumer, RECORDS) == set(range(RECORDS))
    for start in range(RECORDS, 2 * RECORDS, 50):
        produce(broker, start, start + 50)
        assert take(consumer, 50) == set(range(start, start + 50))
    consumer.close()


def test_a_fetch_that_wants_more_than_there_is_waits_for_its_time_and_answers(broker: EmbeddedBroker) -> None:
    produce(broker, 0, PARTITIONS)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "large",
            "fetch.min.bytes": 100_000,
            "fetch.wait.max.ms": 300,
        }
    )
    consumer.assign([TopicPartition("many", index, 0) for index in range(PARTITIONS)])
    assert take(consumer, PARTITIONS) == set(range(PARTITIONS))
    consumer.close()
