import asyncio
from collections.abc import Callable, Sequence

import pytest

from barnabas.client import admin
from barnabas.client.cluster import Client
from barnabas.client.consumer import Consumer
from barnabas.client.errors import ClientError
from barnabas.client.fetching import FetchSettings
from barnabas.client.offsets import EARLIEST, beginning_offsets, end_offsets, parse_start, resolve_start
from barnabas.client.opening import ConsumedRecord
from barnabas.client.producer import Producer, ProducerSettings
from barnabas.client.producing.record_accumulator import partition_for_key
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition

NewName = Callable[[], str]


async def read(client: Client, topic: str, count: int, start: str = "beginning") -> list[ConsumedRecord]:
    found = (await client.topics([topic]))[topic]
    partitions = [TopicPartition(topic, index) for index in found.partitions]
    records: list[ConsumedRecord] = []
    async with Consumer(client, await resolve_start(client, partitions, parse_start(start))) as consumer:
        async with asyncio.timeout(20):
            while len(records) < count:
                records += await consumer.poll()
    return records


def values(records: Sequence[ConsumedRecord]) -> list[bytes | None]:
    return [record.value for record in records]


def test_a_record_comes_back_as_it_was_sent(bootstrap: str, new_name: NewName) -> None:
    async def main() -> None:
        topic = new_name()
        async with Client(bootstrap) as client:
            await admin.create_topic(client, topic, partitions=3)
            async with Producer(client) as producer:
                sent = await producer.send(
                    topic, b"value", b"key", headers=[("a", b"1"), ("b", None)], timestamp=1_700_000_000_000
                )
            (record,) = await read(client, topic, 1)
        assert sent.offset == 0
        assert sent.partition == (topic, partition_for_key(b"key", 3))
        assert record == ConsumedRecord(
            topic,
            sent.partition.partition,
            0,
            1_700_000_000_000,
            b"key",
            b"value",
            (("a", b"1"), ("b", None)),
        )

    asyncio.run(main())


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_keeps_the_order(bootstrap: str, new_name: NewName, compression: str) -> None:
    async def main() -> None:
        topic, count = new_name(), 3000
        settings = ProducerSettings(compression=compression, batch_bytes=4000)
        async with Client(bootstrap) as client:
            await admin.create_topic(client, topic, partitions=1)
            async with Producer(client, settings) as producer:
                for number in range(count):
                    await producer.enqueue(topic, b"%d" % number)
            records = await read(client, topic, count)
        assert values(records) == [b"%d" % number for number in range(count)]
        assert [record.offset for record in records] == list(range(count))

    asyncio.run(main())


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_every_acknowledgement_mode_delivers_the_records(
    bootstrap: str, new_name: NewName, acks: int
) -> None:
    async def main() -> None:
        topic = new_name()
        async with Client(bootstrap) as client:
            await admin.create_topic(client, topic)
            async with Producer(client, ProducerSettings(acks=acks)) as producer:
                sent = await producer.send(topic, b"x")
            assert values(await read(client, topic, 1)) == [b"x"]
        assert sent.offset == (-1 if acks == 0 else 0)

    asyncio.run(main())


def test_records_without_a_key_are_spread_over_the_partitions(bootstrap: str, new_name: NewName) -> None:
    async def main() -> None:
        topic = new_name()
        async with Client(bootstrap) as client:
            await admin.create_topic(client, topic, partitions=3)
            async with Producer(client, ProducerSettings(batch_bytes=500)) as producer:
                for _ in range(1000):
                    await producer.enqueue(topic, b"x" * 50)
            ends = await end_offsets(client, [TopicPartition(topic, index) for index in range(3)])
        assert sum(ends.values()) == 1000
        assert min(ends.values()) > 100

    asyncio.run(main())


def test_more_than_the_buffer_holds_waits_for_room(bootstrap: str, new_name: NewName) -> None:
    async def main() -> None:
        topic = new_name()
        settings = ProducerSettings(batch_bytes=2000, buffer_bytes=10_000)
        async with Client(bootstrap) as client:
            await admin.create_topic(client, topic, partitions=2)
            async with Producer(client, settings) as producer:
                for _ in range(300):
                    await producer.enqueue(topic, b"x" * 100)
                    assert producer.buffered_bytes <= 10_000
            assert len(await read(client, topic, 300)) == 300

    asyncio.run(main())


def test_a_record_that_is_too_large_fails_alone(bootstrap: str, new_name: NewName) -> None:
    async def main() -> None:
        topic = new_name()
        async with Client(bootstrap) as client:
            await admin.create_topic(client, topic, configs={"max.message.bytes": "1000"})
            async with Producer(client) as producer:
                with pytest.raises(KafkaError) as raised:
                    await producer.send(topic, b"x" * 2000)
                with pytest.raises(KafkaError):
                    await producer.flush()
                await producer.send(topic, b"small")
            assert values(await read(client, topic, 1)) == [b"small"]
        assert raised.value.code == ErrorCode.MESSAGE_TOO_LARGE

    asyncio.run(main())


def test_a_batch_that_is_too_large_for_the_topic_is_split(bootstrap: str, new_name: NewName) -> None:
    async def main() -> None:
        topic, count = new_name(), 1000
        async with Client(bootstrap) as client:
            await admin.create_topic(client, topic, configs={"max.message.bytes": "2000"})
            async with Producer(client) as producer:
                promises = [await producer.enqueue(topic, b"%d" % number * 10) for number in range(count)]
                offsets = [(await promise).offset for promise in promises]
            records = await read(client, topic, count)
        assert values(records) == [b"%d" % number * 10 for number in range(count)]
        assert offsets == list(range(count))

    asyncio.run(main())


def test_closing_without_flushing_leaves_no_promise_open(bootstrap: str, new_name: NewName) -> None:
    async def main() -> None:
        topic = new_name()
        async with Client(bootstrap) as client:
            await admin.create_topic(client, topic)
            producer = Producer(client, ProducerSettings(linger=60))
            promise = await producer.enqueue(topic, b"x")
            await producer.close(flush=False)
            with pytest.raises(ClientError, match="was closed before"):
                await promise
            with pytest.raises(ClientError, match="is closed"):
                await producer.send(topic, b"y")

    asyncio.run(main())


def test_a_keyless_record_on_a_compacted_topic_is_refused_with_the_brokers_words(
    bootstrap: str, new_name: NewName
) -> None:
    async def main() -> None:
        topic = new_name()
        async with Client(bootstrap) as client:
            await admin.create_topic(client, topic, configs={"cleanup.policy": "compact"})
            producer = Producer(client)
            with pytest.raises(KafkaError) as raised:
                await producer.send(topic, b"x")
            await producer.close(flush=False)
        assert raised.value.code == ErrorCode.INVALID_RECORD
        assert "key" in str(raised.value).lower()

    asyncio.run(main())


def test_a_partition_that_does_not_exist_is_named(bootstrap: str, new_name: NewName) -> None:
    async def main() -> None:
        topic = new_name()
        async with Client(bootstrap) as client:
            await admin.create_topic(client, topic, partitions=2)
            async with Producer(client) as producer:
                with pytest.raises(KafkaError, match="partitions 0 to 1; there is no 5"):
                    await producer.send(topic, b"x", partition=5)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("beginning", [0, 1, 2, 3, 4]),
        ("3", [3, 4]),
        ("-2", [3, 4]),
        ("-99", [0, 1, 2, 3, 4]),
        ("1700000000002", [2, 3, 4]),
    ],
)
def test_reading_starts_at_the_requested_position(
    bootstrap: str, new_name: NewName, start: str, expected: list[int]
) -> None:
    async def main() -> None:
        topic = new_name()
        async with Client(bootstrap) as client:
            await admin.create_topic(client, topic)
            async with Producer(client) as producer:
                for number in range(5):
                    await producer.enqueue(topic, b"x", timestamp=1_700_000_000_000 + number)
            records = await read(client, topic, len(expected), start)
        assert [record.offset for record in records] == expected

    asyncio.run(main())


def test_consumer_at_the_end_receives_later_records(bootstrap: str, new_name: NewName) -> None:
    async def main() -> None:
        topic = new_name()
        async with Client(bootstrap) as client, Client(bootstrap) as other:
            await admin.create_topic(client, topic)
            async with Producer(other) as producer:
                await producer.send(topic, b"old")
                tp = TopicPartition(topic, 0)
                positions = await resolve_start(client, [tp], parse_start("end"))
                async with Consumer(client, positions, FetchSettings(max_wait=5)) as consumer:
                    reading = asyncio.create_task(consumer.poll(60))
                    await producer.send(topic, b"new")
                    assert values(await reading) == [b"new"]

    asyncio.run(main())


def test_truncated_position_is_an_error_without_a_reset_policy(bootstrap: str, new_name: NewName) -> None:
    async def main() -> None:
        topic = new_name()
        tp = TopicPartition(topic, 0)
        async with Client(bootstrap) as client:
            await admin.create_topic(client, topic)
            async with Producer(client, ProducerSettings(batch_bytes=100)) as producer:
                for number in range(4):
                    await producer.send(topic, b"%d" % number)
            assert await admin.delete_records(client, tp, 2) == 2
            assert (await beginning_offsets(client, [tp]))[tp] == 2
            async with Consumer(client, {tp: 0}) as strict:
                with pytest.raises(KafkaError) as raised:
                    await strict.poll(60)
            async with Consumer(client, {tp: 0}, out_of_range=EARLIEST) as lenient:
                assert values(await lenient.poll(60)) == [b"2", b"3"]
        assert raised.value.code == ErrorCode.OFFSET_OUT_OF_RANGE

    asyncio.run(main())
