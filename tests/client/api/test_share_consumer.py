"""The public share consumer, blocking and for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from barnabas import Admin, AsyncShareConsumer, Producer, ShareConsumer, ShareRecord

NewName = Callable[[], str]


def filled(bootstrap: str, topic: str, count: int) -> str:
    with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        admin.create_topic(topic, partitions=1)
        for number in range(count):
            producer.send(topic, b"%d" % number)
    return topic


def earliest(bootstrap: str, group: str) -> None:
    from barnabas.client import Client
    from barnabas.client.admin import GROUP, ConfigChange, alter_configs

    async def alter() -> None:
        async with Client(bootstrap) as client:
            await alter_configs(client, GROUP, group, [ConfigChange("share.auto.offset.reset", "earliest")])

    asyncio.run(alter())


def take(consumer: ShareConsumer, count: int) -> list[ShareRecord]:
    records = iter(consumer)
    return [next(records) for _ in range(count)]


def test_records_are_accepted_by_the_next_poll(bootstrap: str, new_name: NewName) -> None:
    group = new_name()
    earliest(bootstrap, group)
    topic = filled(bootstrap, new_name(), 6)
    with ShareConsumer(bootstrap, topics=topic, group_id=group) as consumer:
        assert [record.value for record in take(consumer, 2)] == [b"0", b"1"]
    failing = ShareConsumer(bootstrap, topics=topic, group_id=group)
    with pytest.raises(ZeroDivisionError), failing as consumer:  # noqa: PT012  # leaves the block
        for record in consumer:
            assert record.delivery_count >= 1
            if record.value == b"3":
                raise ZeroDivisionError
    with ShareConsumer(bootstrap, topics=topic, group_id=group) as consumer:
        assert [record.value for record in take(consumer, 3)] == [b"3", b"4", b"5"]


def test_explicit_acknowledgements_decide_redelivery(bootstrap: str, new_name: NewName) -> None:
    group = new_name()
    earliest(bootstrap, group)
    topic = filled(bootstrap, new_name(), 3)
    with ShareConsumer(
        bootstrap, topics=topic, group_id=group, share_acknowledgement_mode="explicit"
    ) as consumer:
        records = take(consumer, 3)
        consumer.acknowledge(records[0])
        consumer.acknowledge(records[1], "release")
        consumer.acknowledge(records[2], "reject")
        with pytest.raises(ValueError, match="is acknowledged already"):
            consumer.acknowledge(records[0])
        consumer.commit()
        again = take(consumer, 1)[0]
        assert (again.value, again.delivery_count) == (b"1", records[1].delivery_count + 1)
        consumer.acknowledge(again, "renew")
        consumer.commit()
        consumer.acknowledge(again, "accept")
        consumer.commit()
        assert consumer.poll(0.3) == []
        with pytest.raises(ValueError, match="must be one of accept, release, reject, renew"):
            consumer.acknowledge(again, "maybe")  # type: ignore[arg-type]  # wrong on purpose


def test_asyncio_consumers_share_the_records(bootstrap: str, new_name: NewName) -> None:
    group = new_name()
    earliest(bootstrap, group)
    topic = filled(bootstrap, new_name(), 4)

    async def main() -> None:
        async with AsyncShareConsumer(bootstrap, topics=[topic], group_id=group) as consumer:
            seen = []
            async for record in consumer:
                seen.append(record.value)
                if len(seen) == 3:
                    break
            seen += [record.value for record in await consumer.poll(30)]
            assert seen == [b"0", b"1", b"2", b"3"]

    asyncio.run(main())


def test_a_share_consumer_needs_a_group_and_topics() -> None:
    with pytest.raises(ValueError, match="needs topics and a group"):
        ShareConsumer(topics="jobs")
