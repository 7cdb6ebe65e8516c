"""Transactions with librdkafka: read_committed, zombies, and exactly-once processing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from barnabas.protocol.internal_topics import TRANSACTION_STATE
from barnabas.testing import EmbeddedBroker
from tests.clients.conftest import consume
from tests.support.waiting import until

TIMEOUT = 60.0


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    return broker.create_topic(partitions=2)


def transactional(bootstrap: str, name: str, **settings: object) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
    )
    producer.init_transactions(TIMEOUT)
    return producer


def committed_values(bootstrap: str, topic: str, count: int, partition: int = 0) -> list[bytes | None]:
    messages = consume(bootstrap, topic, count, partition=partition, isolation_level="read_committed")
    return [message.value() for message in messages]


def end_offsets(bootstrap: str, topic: str, isolation: str) -> tuple[int, int]:
    """Log start, and the end for a reader of this isolation."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": isolation})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT)
        return low, high
    finally:
        consumer.close()


def test_committed_readers_see_committed_transactions_only(bootstrap: str, topic: str) -> None:
    producer = transactional(bootstrap, f"id-{topic}")
    for number in range(10):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=0)
        producer.produce(topic, b"%d" % number, partition=1)
        if number % 2:
            assert producer.flush(TIMEOUT) == 0
            producer.abort_transaction(TIMEOUT)
        else:
            producer.commit_transaction(TIMEOUT)
    for partition in (0, 1):
        assert committed_values(bootstrap, topic, 5, partition) == [b"0", b"2", b"4", b"6", b"8"]
    everything = [
        message.value() for message in consume(bootstrap, topic, 10, isolation_level="read_uncommitted")
    ]
    assert everything == [b"%d" % number for number in range(10)]


def test_an_open_transaction_holds_committed_readers_back(bootstrap: str, topic: str) -> None:
    open_one, other = transactional(bootstrap, f"open-{topic}"), transactional(bootstrap, f"other-{topic}")
    open_one.begin_transaction()
    open_one.produce(topic, b"open", partition=0)
    assert open_one.flush(TIMEOUT) == 0
    other.begin_transaction()
    other.produce(topic, b"committed later", partition=0)
    other.commit_transaction(TIMEOUT)
    assert end_offsets(bootstrap, topic, "read_committed") == (0, 0)
    assert end_offsets(bootstrap, topic, "read_uncommitted") == (0, 3)
    open_one.abort_transaction(TIMEOUT)
    until(lambda: end_offsets(bootstrap, topic, "read_committed") == (0, 4), "the last stable offset")
    assert committed_values(bootstrap, topic, 1) == [b"committed later"]


def test_a_new_instance_fences_the_old_one(bootstrap: str, topic: str) -> None:
    zombie = transactional(bootstrap, f"id-{topic}")
    zombie.begin_transaction()
    zombie.produce(topic, b"of the zombie", partition=0)
    assert zombie.flush(TIMEOUT) == 0
    successor = transactional(bootstrap, f"id-{topic}")
    with pytest.raises(KafkaException) as refused:
        zombie.commit_transaction(TIMEOUT)
    assert refused.value.args[0].code() == KafkaError._FENCED
    successor.begin_transaction()
    successor.produce(topic, b"of the successor", partition=0)
    successor.commit_transaction(TIMEOUT)
    assert committed_values(bootstrap, topic, 1) == [b"of the successor"]


def test_a_timeout_longer_than_allowed_is_refused(bootstrap: str) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "patient", "transaction.timeout.ms": 900_001}
    )
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(TIMEOUT)
    assert refused.value.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT


@pytest.fixture
def members() -> Iterator[list[Consumer]]:
    opened: list[Consumer] = []
    yield opened
    for consumer in opened:
        consumer.close()


def member(bootstrap: str, group: str, topic: str, members: list[Consumer]) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    members.append(consumer)
    return consumer


def test_consuming_transforming_and_producing_is_exactly_once(
    broker: EmbeddedBroker, bootstrap: str, topic: str, members: list[Consumer]
) -> None:
    output, count = broker.create_topic(), 200
    source = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        source.produce(topic, b"%d" % number, partition=number % 2)
    assert source.flush(TIMEOUT) == 0
    consumer = member(bootstrap, f"group-{topic}", topic, members)
    producer = transactional(bootstrap, f"id-{topic}")
    done, attempts = 0, 0
    while done < count:
        messages = consumer.consume(20, 1.0)
        if not messages:
            continue
        attempts += 1
        producer.begin_transaction()
        for message in messages:
            producer.produce(output, message.value(), partition=0)
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), TIMEOUT)
        if attempts % 3 == 0:
            producer.abort_transaction(TIMEOUT)
            for place in consumer.committed(consumer.assignment(), TIMEOUT):
                consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))
        else:
            producer.commit_transaction(TIMEOUT)
            done += len(messages)
    found = committed_values(bootstrap, output, count)
    assert sorted(found, key=lambda value: int(value or 0)) == [b"%d" % number for number in range(count)]


def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"}
    with EmbeddedBroker(settings) as broker:
        topic = broker.create_topic()
        producer = transactional(broker.bootstrap_servers, "slow", transaction_timeout_ms=1000)
        producer.begin_transaction()
        producer.produce(topic, b"too slow", partition=0)
        assert producer.flush(TIMEOUT) == 0
        until(lambda: end_offsets(broker.bootstrap_servers, topic, "read_committed") == (0, 2), "the abort")
        with pytest.raises(KafkaException):
            producer.commit_transaction(TIMEOUT)
        fresh = transactional(broker.bootstrap_servers, "slow")
        fresh.begin_transaction()
        fresh.produce(topic, b"in time", partition=0)
        fresh.commit_transaction(TIMEOUT)
        assert committed_values(broker.bootstrap_servers, topic, 1) == [b"in time"]


def test_a_silent_transactional_id_is_forgotten() -> None:
    settings = {
        "transaction.state.log.num.partitions": "1",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "50",
        "transactional.id.expiration.ms": "300",
    }
    with EmbeddedBroker(settings) as broker:
        transactional(broker.bootstrap_servers, "silent")
        shards = broker.broker.coordinators.transactions.runtime.shards
        until(lambda: all(len(shard) == 0 for _, shard in shards()), "the end of the id")
        written = consume(broker.bootstrap_servers, TRANSACTION_STATE, 2)
        assert [message.value() is None for message in written] == [False, True]  # noted, then taken back
