"""Topics, and what a consumer that is not ours finds in them."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.client.cluster import Client
from barnabas.client.producing.transactional import TransactionRequests
from barnabas.client.transactions import list_transactions


def create_topic(bootstrap: str, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)


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
