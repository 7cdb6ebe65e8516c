"""Ranges of offsets are read to their ends from both brokers; deleted offsets are reported once per range."""

import asyncio
from collections.abc import Callable

from barnabas.client import admin
from barnabas.client.cluster import Client
from barnabas.client.fetching import FetchSettings
from barnabas.client.offsets import OffsetRange
from barnabas.client.producer import Producer
from barnabas.client.range_fetcher import FetchedRange, RangeFetcher
from barnabas.common.types import TopicPartition
from barnabas.records.record import iterate_records

TIMEOUT = 30.0


async def read_all(fetcher: RangeFetcher) -> list[tuple[int, int, bytes | None]]:
    found: list[tuple[int, int, bytes | None]] = []
    try:
        while not fetcher.is_done:
            for part in await fetcher.next():
                found += rows(part)
    finally:
        await fetcher.close()
    return sorted(found)


def rows(part: FetchedRange) -> list[tuple[int, int, bytes | None]]:
    return [
        (part.tp.partition, record.offset, record.value)
        for batch in part.planned.batches
        for record in iterate_records(part.planned.records[batch.start : batch.end], batch.header)
        if part.first <= record.offset < part.until
    ]


async def filled(client: Client, topic: str, partitions: int, records: int) -> None:
    await admin.create_topic(client, topic, partitions=partitions)
    async with Producer(client) as producer:
        for number in range(records):
            for partition in range(partitions):
                await producer.enqueue(topic, b"%d" % number, partition=partition)


def test_each_range_is_read_to_its_end(bootstrap: str, new_name: Callable[[], str]) -> None:
    topic = new_name()
    lost: list[str] = []

    async def main() -> None:
        async with Client(bootstrap) as client:
            await filled(client, topic, 2, 100)
            ranges = [
                OffsetRange(TopicPartition(topic, 0), 10, 90),
                OffsetRange(TopicPartition(topic, 1), 0, 100),
            ]
            fetcher = RangeFetcher(client, ranges, FetchSettings(partition_bytes=200), TIMEOUT, lost.append)
            expected = [(0, offset, b"%d" % offset) for offset in range(10, 90)]
            expected += [(1, offset, b"%d" % offset) for offset in range(100)]
            assert await read_all(fetcher) == expected

    asyncio.run(main())
    assert lost == []


def test_deleted_records_are_reported_and_the_rest_is_read(
    bootstrap: str, new_name: Callable[[], str]
) -> None:
    topic = new_name()
    lost: list[str] = []

    async def main() -> None:
        async with Client(bootstrap) as client:
            await filled(client, topic, 1, 100)
            tp = TopicPartition(topic, 0)
            await admin.delete_records(client, tp, 60)
            fetcher = RangeFetcher(client, [OffsetRange(tp, 0, 100)], FetchSettings(), TIMEOUT, lost.append)
            assert [offset for _, offset, _ in await read_all(fetcher)] == list(range(60, 100))

    asyncio.run(main())
    assert lost == [f"offset 0 of {topic}-0 was deleted: the log starts at 60"]
