"""Reading transactional records of another client."""

import asyncio
from collections.abc import Callable

import confluent_kafka

from barnabas.client import admin
from barnabas.client.cluster import Client
from barnabas.client.consumer import Consumer
from barnabas.client.fetching import FetchSettings
from barnabas.client.offsets import READ_COMMITTED, READ_UNCOMMITTED, end_offsets
from barnabas.common.types import TopicPartition

FEW_SECONDS = 60


def write_transactions(bootstrap: str, topic: str) -> None:
    """One that is committed, one that is aborted, one that is committed again."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(FEW_SECONDS)
    for number in range(3):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number)
        if number == 1:
            producer.flush(FEW_SECONDS)  # so that it is in the log before it is aborted
            producer.abort_transaction(FEW_SECONDS)
        else:
            producer.commit_transaction(FEW_SECONDS)


async def read(client: Client, tp: TopicPartition, isolation: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    end = (await end_offsets(client, [tp], isolation))[tp]
    async with Consumer(client, {tp: 0}, FetchSettings(isolation=isolation)) as consumer:
        async with asyncio.timeout(FEW_SECONDS):
            while consumer.position(tp) < end:
                values += [record.value for record in await consumer.poll()]
    return values


def test_aborted_records_are_visible_only_to_read_uncommitted_readers(
    bootstrap: str, new_name: Callable[[], str]
) -> None:
    async def main() -> None:
        topic = new_name()
        tp = TopicPartition(topic, 0)
        async with Client(bootstrap) as client:
            await admin.create_topic(client, topic)
            await asyncio.to_thread(write_transactions, bootstrap, topic)
            assert await read(client, tp, READ_COMMITTED) == [b"0", b"2"]
            assert await read(client, tp, READ_UNCOMMITTED) == [b"0", b"1", b"2"]

    asyncio.run(main())
