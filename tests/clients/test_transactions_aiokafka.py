"""Transactions with aiokafka, with the oldest protocol versions in use."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced

from barnabas.testing import EmbeddedBroker


def producer(bootstrap: str, name: str) -> AIOKafkaProducer:
    return AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)


async def read_committed(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=None,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    consumer.assign([TopicPartition(topic, 0)])
    async with consumer:
        return [(await asyncio.wait_for(consumer.getone(), 10)).value for _ in range(count)]


def test_committed_readers_see_committed_transactions_only(bootstrap: str, topic: str) -> None:
    async def scenario() -> list[bytes]:
        async with producer(bootstrap, f"aio-{topic}") as sender:
            async with sender.transaction():
                await sender.send_and_wait(topic, b"first", partition=0)
            await sender.begin_transaction()
            await sender.send_and_wait(topic, b"dropped", partition=0)
            await sender.abort_transaction()
            async with sender.transaction():
                await sender.send_and_wait(topic, b"second", partition=0)
        return await read_committed(bootstrap, topic, 2)

    assert asyncio.run(scenario()) == [b"first", b"second"]


def test_a_new_instance_fences_the_old_one(bootstrap: str, topic: str) -> None:
    async def scenario() -> list[bytes]:
        zombie = producer(bootstrap, f"aio-{topic}")
        await zombie.start()
        await zombie.begin_transaction()
        await zombie.send_and_wait(topic, b"of the zombie", partition=0)
        async with producer(bootstrap, f"aio-{topic}") as successor:
            with pytest.raises(ProducerFenced):
                await zombie.commit_transaction()
            async with successor.transaction():
                await successor.send_and_wait(topic, b"of the successor", partition=0)
        await zombie.stop()
        return await read_committed(bootstrap, topic, 1)

    assert asyncio.run(scenario()) == [b"of the successor"]


def test_consuming_transforming_and_producing_is_exactly_once(
    broker: EmbeddedBroker, bootstrap: str, topic: str
) -> None:
    output, values = broker.create_topic(), [b"%d" % number for number in range(100)]

    async def scenario() -> list[bytes]:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as source:
            for value in values:
                await source.send(topic, value, partition=0)
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=f"aio-{topic}",
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        async with consumer, producer(bootstrap, f"aio-{topic}") as sender:
            await transform(consumer, sender, output, len(values))
        return await read_committed(bootstrap, output, len(values))

    assert asyncio.run(scenario()) == values


async def transform(consumer: AIOKafkaConsumer, sender: AIOKafkaProducer, output: str, count: int) -> None:
    done, attempts = 0, 0
    while done < count:
        batches = await consumer.getmany(timeout_ms=1000, max_records=20)
        attempts += 1
        await sender.begin_transaction()
        for place, messages in batches.items():
            for message in messages:
                await sender.send(output, message.value, partition=0)
            offsets = {place: messages[-1].offset + 1}
            await sender.send_offsets_to_transaction(offsets, consumer._group_id)
        await (sender.abort_transaction() if attempts % 3 == 0 else sender.commit_transaction())
        for place, messages in batches.items():
            if attempts % 3 == 0:
                consumer.seek(place, messages[0].offset)
            else:
                done += len(messages)
