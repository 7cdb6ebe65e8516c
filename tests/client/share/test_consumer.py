"""The client of share groups, against Barnabas and against Apache Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from barnabas.client import admin
from barnabas.client.cluster import Client
from barnabas.client.producer import Producer
from barnabas.client.share.acquired import AcknowledgeType, AcquiredRecord
from barnabas.client.share.consumer import ShareConsumer

TIMEOUT = 60.0


async def prepare(client: Client, topic: str, group: str, jobs: int) -> None:
    await admin.create_topic(client, topic, partitions=2, replication_factor=1)
    earliest = admin.ConfigChange("share.auto.offset.reset", "earliest")
    await admin.alter_configs(client, admin.GROUP, group, [earliest])
    async with Producer(client) as producer:
        for number in range(jobs):
            await producer.enqueue(topic, str(number).encode())


async def take_until(consumer: ShareConsumer, enough: Callable[[AcquiredRecord], bool]) -> AcquiredRecord:
    async with asyncio.timeout(TIMEOUT):
        while True:
            for taken in await consumer.take(50):
                if enough(taken):
                    return taken


def test_every_job_is_answered_for_once(bootstrap: str, new_name: Callable[[], str]) -> None:
    async def run() -> None:
        topic, group, done = new_name(), new_name(), dict[bytes, int]()
        async with Client(bootstrap) as client:
            await prepare(client, topic, group, 200)
            async with ShareConsumer(client, group, [topic]) as consumer:

                def work(taken: AcquiredRecord) -> bool:
                    value = taken.record.value or b""
                    assert value not in done
                    if int(value) % 10 == 0 and taken.delivery_count == 1:
                        consumer.answer(taken, AcknowledgeType.RELEASE)
                    else:
                        consumer.answer(
                            taken, AcknowledgeType.REJECT if int(value) % 10 == 1 else AcknowledgeType.ACCEPT
                        )
                        done[value] = taken.delivery_count
                    return len(done) == 200

                await take_until(consumer, work)
                assert not await consumer.flush()
        assert not consumer.refusals
        assert sorted(done.values()) == [1] * 180 + [2] * 20

    asyncio.run(run())


def test_unacknowledged_records_are_delivered_to_the_next_member(
    bootstrap: str, new_name: Callable[[], str]
) -> None:
    async def run() -> None:
        topic, group = new_name(), new_name()
        async with Client(bootstrap) as client:
            await prepare(client, topic, group, 1)
            async with ShareConsumer(client, group, [topic]) as first:
                taken = await take_until(first, lambda taken: taken.delivery_count == 1)
            async with ShareConsumer(client, group, [topic]) as second:
                again = await take_until(second, lambda taken: taken.delivery_count == 2)
        assert again.record.value == taken.record.value

    asyncio.run(run())
