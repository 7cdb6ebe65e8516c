"""A slow consumer while its log is truncated and rewritten (an unclean election)."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from tests.support.server import Client, ask, frame, raw_broker, scenario
from tests.support.waiting import async_until

BATCHES, BATCH_BYTES = 16, 900_000


async def produce(client: Client, filling: bytes) -> None:
    """Records that consist of one byte, repeated."""
    for _ in range(BATCHES):
        records = build_batch([Record(0, 0, b"k", filling * BATCH_BYTES)])
        data = PartitionProduceData(index=0, records=records)
        topic = TopicProduceData(name="orders", partition_data=[data])
        answer = await ask(client, ProduceRequest(acks=1, timeout_ms=5000, topic_data=[topic]), 9)
        assert not answer.responses[0].partition_responses[0].error_code


async def slow_client(port: int) -> Client:
    connected = socket.socket()
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    connected.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connected, ("127.0.0.1", port))
    return Client(*await asyncio.open_connection(sock=connected, limit=8192))


def fetch() -> bytes:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=BATCHES * BATCH_BYTES * 2)
    topic = FetchTopic(topic="orders", partitions=[wanted])
    return frame(FetchRequest(max_bytes=1 << 30, min_bytes=1, topics=[topic]), 11)


def test_consumer_never_receives_replacements_of_truncated_records(tmp_path: Path) -> None:
    @scenario
    async def run() -> None:
        async with raw_broker(tmp_path) as server:
            producer = await server.connect()
            topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
            await ask(producer, CreateTopicsRequest(topics=[topic], timeout_ms=5000), 5)
            await produce(producer, b"a")
            consumer = await slow_client(server.broker.listeners[0].port)
            server.clients.append(consumer)
            await consumer.send(fetch())
            await async_until(lambda: any(each.output for each in server.broker.sockets.connections))
            for _ in range(100):  # the socket fills up
                await asyncio.sleep(0)
            server.broker.replicas.by_name["orders"][0].log.truncate_to(1)
            await produce(producer, b"b")
            with pytest.raises(asyncio.IncompleteReadError):
                await consumer.response()
            assert server.broker.sockets.closed == {"truncated": 1}

    run()
