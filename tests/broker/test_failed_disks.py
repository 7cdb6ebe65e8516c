"""A broker with several log dirs, one of which fails: its partitions lose their leader, the others are served."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from barnabas.broker.broker import Broker
from barnabas.broker.platform import Platform
from barnabas.common.errors import ErrorCode
from barnabas.common.types import TopicPartition
from barnabas.config.broker import BrokerConfig
from barnabas.protocol import decode_response, response_class
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.metadata import (
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from barnabas.protocol.messages.metadata import TopicRequest as DescribedTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest
from barnabas.protocol.schema import Message
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from barnabas.testing.files import FaultyFileSystem
from tests.support.server import Client, frame, scenario
from tests.support.waiting import async_until


class Asking:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def __call__(self, message: Message, version: int) -> Any:
        await self._client.send(frame(message, version))
        body = memoryview(await self._client.response())
        return decode_response(message.api_key, version, response_class(message.api_key), body)[1]

    async def create(self, partitions: int) -> None:
        topic = CreatableTopic(name="orders", num_partitions=partitions, replication_factor=1)
        answer = await self(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 5)
        assert answer.topics[0].error_code == 0

    async def produce(self, index: int) -> int:
        data = PartitionProduceData(index=index, records=build_batch([Record(0, 0, b"k", b"v")]))
        topic = TopicProduceData(name="orders", partition_data=[data])
        answer = await self(ProduceRequest(acks=1, timeout_ms=5000, topic_data=[topic]), 9)
        code: int = answer.responses[0].partition_responses[0].error_code
        return code

    async def fetch(self, index: int) -> int:
        wanted = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic="orders", partitions=[wanted])]
        answer = await self(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), 11)
        code: int = answer.responses[0].partitions[0].error_code
        return code

    async def partitions(self) -> list[Any]:
        answer = await self(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 9)
        return sorted(answer.topics[0].partitions, key=lambda each: each.partition_index)


@asynccontextmanager
async def running(disk: FaultyFileSystem, dirs: str) -> AsyncIterator[tuple[Broker, Asking]]:
    settings = {"log.dirs": dirs, "listeners": "PLAINTEXT://127.0.0.1:0", "barnabas.disk.reserve.bytes": "0"}
    broker = Broker(BrokerConfig.load(settings), platform=Platform(disk))
    await broker.start()
    client = Client(*await asyncio.open_connection("127.0.0.1", broker.listeners[0].port))
    try:
        yield broker, Asking(client)
    finally:
        client.abort()
        await broker.stop()


@scenario
async def test_a_failed_log_dir_takes_its_partitions_offline_and_no_others() -> None:
    disk = FaultyFileSystem()
    async with running(disk, "/one,/two") as (broker, ask):
        await ask.create(2)
        disk.fail_at(1, OSError(errno.EIO, "the disk is broken"), "append")
        assert await ask.produce(0) == ErrorCode.KAFKA_STORAGE_ERROR
        await async_until(lambda: len(broker.replicas.offline) == 1)
        lost, kept = await ask.partitions()
        assert (lost.leader_id, lost.error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)
        assert (lost.offline_replicas, lost.isr_nodes) == ([1], [1])
        assert (kept.leader_id, kept.error_code, kept.offline_replicas) == (1, 0, [])
        described = await ask(
            DescribeTopicPartitionsRequest(
                topics=[DescribedTopic(name="orders")], response_partition_limit=9
            ),
            0,
        )
        assert [each.leader_id for each in described.topics[0].partitions] == [-1, 1]
        assert await ask.produce(0) == ErrorCode.KAFKA_STORAGE_ERROR
        assert await ask.fetch(0) == ErrorCode.KAFKA_STORAGE_ERROR
        assert await ask.produce(1) == 0


@scenario
async def test_a_topic_that_was_partly_offline_can_be_deleted_and_created_again() -> None:
    disk = FaultyFileSystem()
    async with running(disk, "/one,/two") as (broker, ask):
        await ask.create(2)
        disk.fail_at(1, OSError(errno.EIO, "the disk is broken"), "append")
        await ask.produce(0)
        await async_until(lambda: len(broker.replicas.offline) == 1)
        await ask(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=5000), 4)
        assert not broker.replicas.offline
        await ask.create(2)
        assert [each.leader_id for each in await ask.partitions()] == [1, 1]
        assert [await ask.produce(0), await ask.produce(1)] == [0, 0]


@scenario
async def test_a_partition_for_which_there_was_no_room_is_made_when_there_is() -> None:
    disk = FaultyFileSystem()
    async with running(disk, "/one") as (broker, ask):
        disk.fail_at(1, OSError(errno.ENOSPC, "No space left on device"), "make_folder")
        await ask.create(1)
        assert list(broker.replicas.offline) == [TopicPartition("orders", 0)]
        assert await ask.produce(0) == ErrorCode.KAFKA_STORAGE_ERROR
        await async_until(lambda: not broker.replicas.offline)
        assert await ask.produce(0) == 0


@scenario
async def test_broker_without_any_usable_disk_reports_it_and_exits() -> None:
    disk = FaultyFileSystem()
    ended: list[str] = []
    async with running(disk, "/one") as (broker, ask):
        broker.on_all_dirs_failed = lambda: ended.append("ended")
        await ask.create(1)
        disk.fail_at(1, OSError(errno.EIO, "the disk is broken"), "append")
        assert await ask.produce(0) == ErrorCode.KAFKA_STORAGE_ERROR
        await async_until(lambda: bool(ended))
        assert broker.monitoring.health()[0] is False


@scenario
async def test_broker_starts_without_one_of_its_disks_and_uses_the_others() -> None:
    disk = FaultyFileSystem()
    async with running(disk, "/one,/two") as (_, ask):
        await ask.create(2)
    disk.fail_at(2, OSError(errno.EIO, "the disk is broken"), "open")  # the lock of the second folder
    async with running(disk, "/one,/two") as (broker, ask):
        assert list(broker.logs.offline_dirs) == ["/two"]
        assert sorted(each.leader_id for each in await ask.partitions()) == [-1, 1]
        await ask(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=5000), 4)
        await ask.create(2)
        assert [each.leader_id for each in await ask.partitions()] == [1, 1]
        assert [await ask.produce(0), await ask.produce(1)] == [0, 0]
