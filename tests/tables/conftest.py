"""One broker for the tests of tables, and topics with hard-to-read records."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, Protocol

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from barnabas.testing import EmbeddedBroker

SETTINGS = {
    "replica.high.watermark.checkpoint.interval.ms": "100",
    "log.cleaner.backoff.ms": "100",
    "log.retention.check.interval.ms": "500",
}
DEADLINE = 60.0
NOW = int(time.time()) * 1000 - 3_600_000  # older records would be removed by retention
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SCHEMA = "id BIGINT, country STRING, amount DOUBLE, tags ARRAY<STRING>"


class Cluster(Protocol):
    """Barnabas or Apache Kafka."""

    @property
    def bootstrap_servers(self) -> str: ...


@pytest.fixture(scope="package")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(SETTINGS) as running:
        yield running


def order(number: int) -> bytes:
    country = ("DE", "AT", "FR")[number % 3]
    return json.dumps({"id": number, "country": country, "amount": number / 4, "tags": [country]}).encode()


BAD = (b"no json", b'{"id": "x", "country": "DE"}', b"[1]", b"\xff", b'{"id": 1}{"id": 2}', b"")


def fill(broker: Cluster, topic: str, partitions: int = 2, count: int = 300, *, keyed: bool = False) -> None:
    """Every codec, transactions that were aborted, bad values, tombstones, and records without a key unless `keyed`."""
    number = 0
    for codec in CODECS:
        for outcome in ("commit", "abort", "plain"):
            settings: dict[str, Any] = {
                "bootstrap.servers": broker.bootstrap_servers, "compression.type": codec, "linger.ms": 5,
            }  # fmt: skip
            if outcome != "plain":
                settings["transactional.id"] = f"{topic}-{codec}-{outcome}"
            producer = Producer(settings)
            if outcome != "plain":
                producer.init_transactions(DEADLINE)
                producer.begin_transaction()
            for _ in range(count // 15):
                key = None if number % 11 == 0 and not keyed else b"key-%d" % (number % 40)
                value = (
                    None
                    if number % 13 == 0 and key
                    else BAD[number % len(BAD)]
                    if number % 17 == 0
                    else order(number)
                )
                headers: list[tuple[str, str | bytes | None]] = [("n", b"%d" % number)]
                producer.produce(
                    topic, value, key, number % partitions, timestamp=NOW + number * 1000, headers=headers
                )
                number += 1
            if outcome == "commit":
                producer.commit_transaction(DEADLINE)
            elif outcome == "abort":
                producer.flush(DEADLINE)
                producer.abort_transaction(DEADLINE)
            assert producer.flush(DEADLINE) == 0


def poll_all(broker: Cluster, topic: str, partitions: int) -> list[Message]:
    """Records of a read_committed consumer, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    found: list[Message] = []
    ended: set[int | None] = set()
    try:
        while len(ended) < partitions:
            message = consumer.poll(DEADLINE)
            assert message is not None
            error = message.error()
            if error is None:
                found.append(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
    finally:
        consumer.close()
    return sorted(found, key=lambda message: (message.partition() or 0, message.offset() or 0))


@pytest.fixture(scope="package")
def orders(broker: EmbeddedBroker) -> str:
    topic = broker.create_topic("orders", partitions=2)
    fill(broker, topic)
    return topic
