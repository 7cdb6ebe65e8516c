"""Group consumers on Barnabas and Apache Kafka, with both protocols, together with other clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer

from barnabas.client import admin
from barnabas.client.cluster import Client
from barnabas.client.consuming import membership
from barnabas.client.consuming.classic import ClassicGroupMembership
from barnabas.client.consuming.consumer import GroupConsumer
from barnabas.client.consuming.heartbeats import ConsumerGroupMembership
from barnabas.client.fetching import FetchSettings
from barnabas.client.groups import committed_offsets
from barnabas.client.offsets import Start
from barnabas.client.producer import Producer
from barnabas.common.types import TopicPartition
from tests.support.waiting import async_until

NewName = Callable[[], str]
BEGINNING = Start("beginning")
DEADLINE = 60.0


def consumer_of(client: Client, group: str, topic: str) -> GroupConsumer:
    return GroupConsumer(client, group, [topic], BEGINNING, FetchSettings(max_wait=0.1))


async def filled(client: Client, topic: str, count: int, partitions: int = 2) -> None:
    await admin.create_topic(client, topic, partitions=partitions)
    async with Producer(client) as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number, partition=number % partitions)


@pytest.fixture(params=["newest", "classic"])
def protocol(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> type[membership.GroupMembership]:
    """Classic: as if the brokers offered nothing else."""
    if request.param == "newest":
        return ConsumerGroupMembership

    async def choose(client: Client, group: str, topics: list[str]) -> membership.GroupMembership:
        return ClassicGroupMembership(client, group, topics)

    monkeypatch.setattr("barnabas.client.consuming.consumer.choose_membership", choose)
    return ClassicGroupMembership


def test_position_continues_after_used_offsets(
    bootstrap: str, new_name: NewName, protocol: type[membership.GroupMembership]
) -> None:
    async def main() -> None:
        topic, group = new_name(), new_name()
        async with Client(bootstrap) as client:
            await filled(client, topic, 10)
            async with consumer_of(client, group, topic) as consumer:
                assert type(consumer._member) is protocol
                records: list[Any] = []

                async def has_all() -> bool:
                    records.extend(await consumer.poll(0.2))
                    return len(records) >= 10

                await async_until(has_all)
                consumer.give_back(records[7:])
            assert sum(commit.offset for commit in (await committed_offsets(client, group)).values()) == 7
            async with consumer_of(client, group, topic) as consumer:
                again: list[Any] = []

                async def has_the_rest() -> bool:
                    again.extend(await consumer.poll(0.2))
                    return len(again) >= 3

                await async_until(has_the_rest)
            assert sorted(record.value for record in again) == sorted(record.value for record in records[7:])

    asyncio.run(main())


class Running:
    """A member in a separate task: it must run while others wait for it."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._arguments = (bootstrap, group, topic)
        self._stop = asyncio.Event()
        self.seen: list[bytes | None] = []
        self.partitions: set[TopicPartition] = set()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        bootstrap, group, topic = self._arguments
        async with Client(bootstrap) as client, consumer_of(client, group, topic) as consumer:
            while not self._stop.is_set():
                self.seen += [record.value for record in await consumer.poll(0.1)]
                self.partitions = consumer.partitions

    async def stop(self) -> None:
        self._stop.set()
        await self.task


def test_two_members_share_the_partitions_and_one_takes_over(
    bootstrap: str, new_name: NewName, protocol: type[membership.GroupMembership]
) -> None:
    async def main() -> None:
        topic, group = new_name(), new_name()
        async with Client(bootstrap) as client:
            await filled(client, topic, 20, partitions=4)

        first = Running(bootstrap, group, topic)
        await async_until(lambda: len(first.partitions) == 4)
        second = Running(bootstrap, group, topic)
        await async_until(lambda: len(first.partitions) == len(second.partitions) == 2)
        assert not first.partitions & second.partitions
        await second.stop()
        await async_until(lambda: len(first.partitions) == 4)
        await first.stop()
        assert {int(value or b"") for value in first.seen + second.seen} == set(range(20))
        assert len(first.seen + second.seen) == 20  # progress was committed before the partition was revoked

    asyncio.run(main())


@pytest.mark.parametrize("remote", ["classic", "consumer"])
def test_it_joins_a_group_of_librdkafka(bootstrap: str, new_name: NewName, remote: str) -> None:
    topic, group = new_name(), new_name()

    async def prepare() -> None:
        async with Client(bootstrap) as client:
            await filled(client, topic, 8, partitions=2)

    asyncio.run(prepare())
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "group.protocol": remote,
    }
    stop, assigned = threading.Event(), threading.Event()
    counts: list[int] = []

    def run() -> None:
        consumer = ConfluentConsumer(settings)
        consumer.subscribe([topic])
        while not stop.is_set():
            consumer.poll(0.1)
            counts.append(len(consumer.assignment()))
            if counts[-1] == 2:
                assigned.set()
        consumer.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert assigned.wait(DEADLINE)

        async def main() -> None:
            async with Client(bootstrap) as client, consumer_of(client, group, topic) as consumer:
                wanted = ClassicGroupMembership if remote == "classic" else ConsumerGroupMembership
                assert type(consumer._member) is wanted

                async def is_shared() -> bool:
                    await consumer.poll(0.2)
                    return len(consumer.partitions) == 1 and counts[-1] == 1

                await async_until(is_shared)

        asyncio.run(main())
    finally:
        stop.set()
        thread.join()


def test_partition_without_a_commit_starts_at_the_given_position(embedded: Any, new_name: NewName) -> None:
    async def main() -> None:
        topic, group = new_name(), new_name()
        async with Client(embedded.bootstrap_servers) as client:
            await filled(client, topic, 4, partitions=1)
            tp = TopicPartition(topic, 0)
            consumer = GroupConsumer(client, group, [topic], Start("last", 1), FetchSettings(max_wait=0.1))
            async with consumer:
                records: list[Any] = []

                async def has_one() -> bool:
                    records.extend(await consumer.poll(0.2))
                    return bool(records)

                await async_until(has_one)
            assert [record.offset for record in records] == [3]
            assert (await committed_offsets(client, group))[tp].offset == 4

    asyncio.run(main())
