"""Topics: created, written and read to their end with librdkafka, and the transactions in them."""

from __future__ import annotations

import asyncio
import time
import uuid
from contextlib import closing
from itertools import count
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.client.cluster import Client
from barnabas.client.producing.transactional import TransactionRequests
from barnabas.client.transactions import list_transactions

_groups = count()


def produce(servers: str, topic: str, numbers: range, **settings: object) -> None:
    """Records with these numbers as keys; all are acknowledged when this returns."""
    producer = Producer({"bootstrap.servers": servers, **settings})
    for number in numbers:
        producer.produce(topic, key=str(number), value=f"confluent-{number}", headers={"writer": "confluent"})
        producer.poll(0)
    assert producer.flush(60) == 0


def read_to_end(servers: str, topic: str, partitions: int) -> list[Message]:
    """Every committed record, from the first to the last."""
    settings = {
        "bootstrap.servers": servers,
        "group.id": f"to-end-{next(_groups)}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    found: list[Message] = []
    ended: set[int | None] = set()
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        while len(ended) < partitions:
            message = consumer.poll(60)
            assert message is not None, f"{topic}: no end within a minute"
            error = message.error()
            if error is None:
                found.append(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
    return found


def values_to_end(servers: str, topic: str, partitions: int) -> list[str]:
    messages = read_to_end(servers, topic, partitions)
    return sorted((message.value() or b"").decode().rstrip(".") for message in messages)


class CommittedOffsets:
    """The committed offsets of one group in one topic, read with a client that stays connected."""

    def __init__(self, servers: str, group: str, topic: str, partitions: int) -> None:
        # Uncommitted, so that the offsets of a pending transaction are not waited for.
        settings = {"isolation.level": "read_uncommitted", "group.id": group}
        self._consumer = Consumer({"bootstrap.servers": servers, **settings})
        self._asked = [TopicPartition(topic, partition) for partition in range(partitions)]

    def now(self) -> list[int]:
        """Zero where nothing is committed."""
        return [max(0, answer.offset) for answer in self._consumer.committed(self._asked, 60)]

    def close(self) -> None:
        self._consumer.close()


def create_topic(servers: str, topic: str, partitions: int, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, partitions, 1, config=configs)])[topic].result(60)


def open_transactions(bootstrap: str, sink: str) -> list[str]:
    async def ongoing() -> list[str]:
        async with Client(bootstrap) as client:
            return await TransactionRequests(client).ongoing()

    return [name for name in asyncio.run(ongoing()) if name.startswith(f"{sink}-")]


def transactional_ids(bootstrap: str, sink: str) -> list[str]:
    """All that the broker remembers."""

    async def known() -> list[str]:
        async with Client(bootstrap) as client:
            return [state.transactional_id for _, state in await list_transactions(client)]

    return [name for name in asyncio.run(known()) if name.startswith(f"{sink}-")]


def read_committed(bootstrap: str, topic: str, *, timeout: float = 60.0) -> list[Any]:
    """All committed messages; an error when a transaction stays open, because a reader would hang there."""
    ends = high_watermarks(bootstrap, topic)
    consumer = _consumer(bootstrap, "read_committed")
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in ends])
        return _read(consumer, ends, time.monotonic() + timeout)
    finally:
        consumer.close()


def high_watermarks(bootstrap: str, topic: str) -> dict[int, int]:
    consumer = _consumer(
        bootstrap, "read_uncommitted"
    )  # the other isolation shows the last stable offset instead
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        return {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=60)[1]
            for number in partitions
        }
    finally:
        consumer.close()


def _consumer(bootstrap: str, isolation: str) -> Any:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )


def _read(consumer: Any, waiting: dict[int, int], deadline: float) -> list[Any]:
    found = []
    while waiting:
        assert time.monotonic() < deadline, (
            f"partitions {list(waiting)} do not end: a transaction is open in them"
        )
        for message in consumer.consume(1000, 0.1):
            if message.error() is None:
                found.append(message)
            elif message.offset() >= waiting.get(message.partition(), 0):
                waiting.pop(message.partition(), None)
    return found
