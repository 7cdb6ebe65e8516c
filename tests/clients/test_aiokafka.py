"""aiokafka: asyncio, with the oldest protocol versions in use."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition


async def send_and_read(
    bootstrap: str, topic: str, values: list[bytes], **settings: object
) -> list[bytes | None]:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
        sent = await asyncio.gather(*[await producer.send(topic, value, partition=0) for value in values])
        assert [metadata.offset for metadata in sent] == list(range(len(values)))
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    received: list[bytes | None] = []
    async with consumer:
        while len(received) < len(values):
            record = await asyncio.wait_for(consumer.getone(), 10)
            received.append(record.value)
    return received


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_go_in_and_come_out(bootstrap: str, topic: str, codec: str | None) -> None:
    values = [b"value %d" % number for number in range(100)]
    assert asyncio.run(send_and_read(bootstrap, topic, values, compression_type=codec)) == values


def test_an_idempotent_producer_is_served(bootstrap: str, topic: str) -> None:
    values = [b"%d" % number for number in range(100)]
    assert asyncio.run(send_and_read(bootstrap, topic, values, enable_idempotence=True)) == values
