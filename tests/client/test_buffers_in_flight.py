"""Buffers in flight are not reused: a late, abandoned or retried batch is never overwritten.

In Kafka's Java producer it did (CVE-2026-35554): a buffer of a batch that had timed out was used again while the
network still sent from it, and records landed in a topic that was not theirs. Here a proxy stops reading in the middle
of requests to a real broker.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from barnabas.client.cluster import Client
from barnabas.client.consumer import Consumer
from barnabas.client.errors import ClientError
from barnabas.client.offsets import end_offsets
from barnabas.client.producer import Producer, ProducerSettings
from barnabas.client.producing.batch_producer import BatchProducer
from barnabas.client.producing.producer_ids import ProducerIdentity
from barnabas.common.types import TopicPartition
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from barnabas.testing import EmbeddedBroker
from tests.support.programs import free_port
from tests.support.waiting import async_until

PARTITIONS = 6
LARGE = 900_000  # six of them exceed the kernel's buffers of an unread connection
DEADLINE = 60.0


class SlowProxy:
    """Forwards bytes to the broker; after `stall` only a limited number, until `go_on`."""

    def __init__(self, port: int, broker_port: Callable[[], int]) -> None:
        self.port = port
        self._broker_port = broker_port
        self._left: int | None = None
        self.stalled = asyncio.Event()
        self._continue = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def stall(self, after: int) -> None:
        self._left = after
        self.stalled.clear()
        self._continue.clear()

    def go_on(self) -> None:
        self._left = None
        self._continue.set()

    async def serve(self) -> asyncio.Server:
        listening = socket.create_server(("127.0.0.1", self.port))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
        return await asyncio.start_server(self._accepted, sock=listening, limit=16 * 1024)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_broker, from_broker = None, None
        try:
            from_broker, to_broker = await asyncio.open_connection("127.0.0.1", self._broker_port())
            back = asyncio.create_task(self._copy(from_broker, writer))
            self._tasks.add(back)
            await self._copy(reader, to_broker, limited=True)
            back.cancel()
        finally:
            writer.close()
            if to_broker is not None:
                to_broker.close()

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, limited: bool = False
    ) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(16 * 1024):
                if limited and self._left is not None:
                    self._left -= len(data)
                    if self._left < 0:
                        writer.write(data[: len(data) // 2])  # in the middle of a frame
                        self.stalled.set()
                        await self._continue.wait()
                        data = data[len(data) // 2 :]
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def proxied(*topics: str) -> AsyncIterator[tuple[EmbeddedBroker, SlowProxy]]:
    port = free_port()
    broker = EmbeddedBroker({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"})
    await asyncio.to_thread(broker.start)
    try:
        proxy = SlowProxy(port, lambda: broker.broker.listeners[0].port)
        server = await proxy.serve()
        for topic in topics:
            await asyncio.to_thread(broker.create_topic, topic, partitions=PARTITIONS)
        yield broker, proxy
        proxy.go_on()
        server.close()
    finally:
        await asyncio.to_thread(broker.stop)


def value_of(topic: str, partition: int, number: int = 0) -> bytes:
    """Repeats its position throughout the value."""
    pattern = f"<{topic}/{partition}/{number}>".encode()
    return pattern * (LARGE // len(pattern))


async def contents(client: Client, topic: str) -> dict[int, list[bytes | None]]:
    partitions = {TopicPartition(topic, index): 0 for index in range(PARTITIONS)}
    found: dict[int, list[bytes | None]] = {index: [] for index in range(PARTITIONS)}
    count = sum((await end_offsets(client, partitions)).values())
    async with Consumer(client, partitions) as consumer:
        while sum(map(len, found.values())) < count:
            for record in await consumer.poll():
                found[record.partition].append(record.value)
    return found


def scenario(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), DEADLINE))


def settings(acks: int = -1) -> ProducerSettings:
    return ProducerSettings(acks=acks, batch_bytes=1000, linger=0.0)


def test_cve_2026_35554_batches_that_time_out_half_way_are_sent_again_as_they_were() -> None:
    async def main() -> None:
        async with (
            proxied("a", "b") as (broker, proxy),
            Client(broker.bootstrap_servers, request_timeout=1.0) as client,
        ):
            async with Producer(client, settings()) as producer:
                await producer.send("b", b"first", partition=0)
                stalled = await client.connection_to(broker.broker.node_id)
                proxy.stall(after=LARGE // 2)
                places = [(topic, index) for index in range(PARTITIONS) for topic in ("a", "b")]
                sent = [await producer.enqueue(t, value_of(t, p), partition=p) for t, p in places]
                await proxy.stalled.wait()
                await async_until(lambda: stalled.closed, "requests are not given up")
                proxy.go_on()
                await asyncio.gather(*(_delivered(one) for one in sent))
            assert await contents(client, "a") == {p: [value_of("a", p)] for p in range(PARTITIONS)}
            found = await contents(client, "b")
            assert found == {p: [b"first"] * (p == 0) + [value_of("b", p)] for p in range(PARTITIONS)}

    scenario(main)


async def _delivered(delivery: Any) -> None:
    await delivery


@pytest.mark.parametrize("acks", [-1, 1, 0])
def test_a_batch_that_is_given_up_half_way_leaves_the_connection_as_it_should_be(acks: int) -> None:
    """The producer is closed; the rest of its request is still sent, followed by the next producer's."""

    async def main() -> None:
        async with proxied("a", "b") as (broker, proxy), Client(broker.bootstrap_servers) as client:
            given_up = Producer(client, settings(acks))
            await given_up.send("a", b"first", partition=0)
            proxy.stall(after=LARGE // 2)
            tasks = [
                asyncio.create_task(given_up.send("a", value_of("a", index), partition=index))
                for index in range(PARTITIONS)
            ]
            await proxy.stalled.wait()
            tasks[0].cancel()
            await given_up.close(flush=False)
            await asyncio.gather(*tasks, return_exceptions=True)
            async with Producer(client, settings()) as producer:
                sending = [
                    asyncio.create_task(producer.send("b", value_of("b", index), partition=index))
                    for index in range(PARTITIONS)
                ]
                await asyncio.sleep(0)
                proxy.go_on()
                await asyncio.gather(*sending)
            assert await contents(client, "b") == {p: [value_of("b", p)] for p in range(PARTITIONS)}
            for partition, values in (await contents(client, "a")).items():
                allowed = [b"first"] * (partition == 0) + [value_of("a", partition)]
                assert values in (allowed, allowed[:-1])

    scenario(main)


def test_a_value_that_its_owner_changes_after_it_was_taken_in_is_sent_as_it_was() -> None:
    async def main() -> None:
        async with proxied("a") as (broker, _), Client(broker.bootstrap_servers) as client:
            async with Producer(client, ProducerSettings(linger=0.05)) as producer:
                shared, key = bytearray(b"value 0"), bytearray(b"key 0")
                for number in range(10):
                    shared[-1:] = key[-1:] = str(number).encode()
                    await producer.enqueue("a", shared, key, partition=0)  # type: ignore[arg-type]
            found = (await contents(client, "a"))[0]
        assert found == [f"value {number}".encode() for number in range(10)]

    scenario(main)


class Sealed:
    """As the sink's blocks: one bytearray, which `seal` writes into each time."""

    def __init__(self, tp: TopicPartition, value: bytes) -> None:
        self.tp, self.count = tp, 1
        self.data = build_batch([Record(0, 1, None, value, ())])

    def seal(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool
    ) -> bytearray:
        return self.data


def test_batches_of_the_sink_are_sent_again_as_they_were_and_may_be_changed_by_then() -> None:
    async def main() -> None:
        async with proxied("a", "b") as (broker, proxy):
            batches = [
                Sealed(TopicPartition(topic, index), value_of(topic, index))
                for topic in ("a", "b")
                for index in range(PARTITIONS)
            ]
            async with Client(broker.bootstrap_servers, request_timeout=1.0, total_timeout=1.0) as client:
                await client.topics(["a", "b"])
                proxy.stall(after=LARGE // 2)
                with pytest.raises(ClientError):
                    await BatchProducer(client, ProducerIdentity()).send(batches)
                for batch in batches:  # abandoned: the bytes in flight must not change
                    batch.data[100:200] = bytes(100)
                proxy.go_on()
            async with Client(broker.bootstrap_servers) as client:
                fresh = [Sealed(batch.tp, value_of(*batch.tp, 1)) for batch in batches]
                await client.topics(["a", "b"])
                await BatchProducer(client, ProducerIdentity()).send(fresh)
                for topic in ("a", "b"):
                    for partition, values in (await contents(client, topic)).items():
                        assert set(values) <= {value_of(topic, partition), value_of(topic, partition, 1)}
                        assert values[-1] == value_of(topic, partition, 1)

    scenario(main)
