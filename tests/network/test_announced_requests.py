"""Clients that announce requests and never send them do not delay others on a default node."""

from __future__ import annotations

import asyncio
import struct
import time
from pathlib import Path

import pytest

from barnabas.broker.broker import Broker
from barnabas.config.broker import BrokerConfig
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from tests.support.server import Client, frame, scenario
from tests.support.waiting import async_until

AT_ONCE = 0.1  # seconds
TRIES = 5  # the machine may be busy with something else


async def connect(broker: Broker) -> Client:
    return Client(*await asyncio.open_connection("127.0.0.1", broker.listeners[0].port))


def produce(size: int) -> bytes:
    data = PartitionProduceData(index=0, records=build_batch([Record(0, 0, b"k", bytes(size))]))
    topic = TopicProduceData(name="orders", partition_data=[data])
    return frame(ProduceRequest(acks=1, timeout_ms=5000, topic_data=[topic]), 9)


async def seconds_for(broker: Broker, client: Client, data: bytes) -> float:
    """How long the answer takes to a request that needs two reads."""
    used = broker.sockets.memory.used
    started = time.monotonic()
    await client.send(data[: len(data) // 2])
    await async_until(lambda: broker.sockets.memory.used > used)
    await client.send(data[len(data) // 2 :])
    assert await client.correlation_ids(1) == [1]
    return time.monotonic() - started


@pytest.mark.parametrize("announced", [3, 300])
def test_producers_are_answered_while_other_clients_announce_unsent_bytes(
    announced: int, tmp_path: Path
) -> None:
    @scenario
    async def run() -> None:
        broker = Broker(
            BrokerConfig.load({"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"})
        )
        await broker.start()
        hostile = [await connect(broker) for _ in range(announced)]
        producer = await connect(broker)
        try:
            for client in hostile:
                await client.send(struct.pack(">i", 100 << 20) + bytes(46))
            await async_until(lambda: broker.sockets.memory.used >= announced * 50)
            topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
            await producer.send(frame(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 5))
            assert await producer.correlation_ids(1) == [1]
            for size in (16_000, 128_000, 900_000):
                taken = [await seconds_for(broker, producer, produce(size)) for _ in range(TRIES)]
                assert min(taken) < AT_ONCE
            assert broker.sockets.memory.used < 256 << 20
        finally:
            for client in (*hostile, producer):
                client.abort()
            await broker.stop()

    run()
