"""A broker with two log dirs, one of which is slow: only requests that need it are delayed."""

from __future__ import annotations

import asyncio
import errno
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.broker import Broker
from barnabas.broker.platform import Platform
from barnabas.common.errors import ErrorCode
from barnabas.common.types import TopicPartition
from barnabas.config.broker import BrokerConfig
from barnabas.log.dirs import slow_writes
from barnabas.log.dirs.log_dir import LogDir
from barnabas.log.dirs.slow_writes import PendingWrites
from barnabas.protocol import decode_response, response_class
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.metadata import FindCoordinatorRequest, MetadataRequest
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.schema import Message
from barnabas.records.batch import iterate_headers
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from barnabas.testing.slow_files import SlowFileSystem
from tests.support.server import Client, frame, scenario
from tests.support.waiting import async_eventually, async_until

SLOW_MS = 40
NO_ROOM = OSError(errno.ENOSPC, "no room")


class Asking:
    """One connection."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def send(self, message: Message, version: int) -> None:
        await self._client.send(frame(message, version))

    async def answer(self, message: Message, version: int) -> Any:
        body = memoryview(await self._client.response())
        return decode_response(message.api_key, version, response_class(message.api_key), body)[1]

    async def __call__(self, message: Message, version: int) -> Any:
        await self.send(message, version)
        return await self.answer(message, version)

    async def create(self, topic: str, partitions: int) -> None:
        wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
        answer = await self(CreateTopicsRequest(topics=[wanted], timeout_ms=5000), 5)
        assert answer.topics[0].error_code == 0

    async def produce(self, index: int, acks: int = 1, **batch: Any) -> tuple[ErrorCode, int]:
        answer = await self(producing(index, acks, **batch), 9)
        data = answer.responses[0].partition_responses[0]
        return ErrorCode(data.error_code), data.base_offset

    async def end(self, index: int) -> int:
        """The offset after the last batch that a consumer gets."""
        wanted = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic="orders", partitions=[wanted])]
        answer = await self(FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics), 11)
        records = bytes(answer.responses[0].partitions[0].records or b"")
        return max((header.next_offset for _, header in iterate_headers(records)), default=0)

    async def ping(self) -> None:
        assert (await self(MetadataRequest(topics=[]), 9)).brokers


def producing(index: int, acks: int = 1, **batch: Any) -> ProduceRequest:
    data = PartitionProduceData(index=index, records=build_batch([Record(0, 0, b"k", b"v")], **batch))
    topic = TopicProduceData(name="orders", partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=20_000, topic_data=[topic])


class Scene:
    """Partition `slow` of the topic is in a separate dir."""

    def __init__(self, broker: Broker, files: SlowFileSystem) -> None:
        self.broker = broker
        self.files = files
        self._clients: list[Client] = []

    async def client(self) -> Asking:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.broker.listeners[0].port))
        self._clients.append(client)
        return Asking(client)

    def dir_of(self, topic: str, index: int) -> LogDir:
        found = self.broker.logs.dir_of(TopicPartition(topic, index))
        assert found is not None
        return found

    def close(self) -> None:
        for client in self._clients:
            client.abort()


def config(folder: Path) -> BrokerConfig:
    return BrokerConfig.load(
        {
            "log.dirs": f"{folder}/one,{folder}/two",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "barnabas.disk.reserve.bytes": "0",
            "barnabas.acks.all.fsync": "never",
            "barnabas.log.dir.slow.write.ms": str(SLOW_MS),
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
        }
    )


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Scene]:
    files = SlowFileSystem()
    broker = Broker(config(folder), platform=Platform(files))
    await broker.start()
    scene = Scene(broker, files)
    try:
        yield scene
    finally:
        scene.close()
        await broker.stop()


@asynccontextmanager
async def one_slow(folder: Path) -> AsyncIterator[tuple[Scene, Asking]]:
    """Partition 0 is in a slow dir, partition 1 in a fast one."""
    async with running(folder) as scene:
        client = await scene.client()
        await client.create("orders", 2)
        scene.dir_of("orders", 0).disk.write_in_thread()
        assert not isinstance(scene.dir_of("orders", 1).disk.writes, PendingWrites)
        yield scene, client


@scenario
async def test_a_slow_log_dir_holds_up_neither_a_ping_nor_a_produce_to_another(tmp_path: Path) -> None:
    async with one_slow(tmp_path) as (scene, client):
        waiting = {acks: await scene.client() for acks in (1, -1)}
        without_answer = await scene.client()
        with scene.files.held(scene.dir_of("orders", 0).folder):
            for acks, each in waiting.items():
                await each.send(producing(0, acks), 9)
            await without_answer.send(producing(0, acks=0), 9)
            await async_until(lambda: scene.files.held_appends.acquire(blocking=False))
            await client.ping()
            assert await client.produce(1) == (ErrorCode.NONE, 0)
            assert await client.produce(1, acks=-1) == (ErrorCode.NONE, 1)
            assert await client.end(0) == 0
        for acks, each in waiting.items():
            answer = (await each.answer(producing(0, acks), 9)).responses[0].partition_responses[0]
            assert answer.error_code == 0
        await without_answer.ping()
        assert await client.end(0) == 3


@scenario
async def test_a_log_dir_that_was_slow_several_times_is_written_to_by_a_thread_until_it_is_fast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_writes, "CALM_SECONDS", 2.0)
    async with running(tmp_path) as scene:
        client = await scene.client()
        await client.create("orders", 2)
        log_dir, other = scene.dir_of("orders", 0), scene.dir_of("orders", 1)
        scene.files.delay(log_dir.folder, 2 * SLOW_MS / 1000)
        produced = 0
        while not isinstance(log_dir.disk.writes, PendingWrites):
            assert await client.produce(0) == (ErrorCode.NONE, produced)
            produced += 1
        assert not isinstance(other.disk.writes, PendingWrites)
        assert await client.produce(0) == (ErrorCode.NONE, produced)
        scene.files.delay(log_dir.folder, 0)
        await async_until(lambda: log_dir.disk.writes is None)
        assert await client.produce(0) == (ErrorCode.NONE, produced + 1)
        assert await client.end(0) == produced + 2


@scenario
async def test_acknowledged_records_survive_a_kill_and_others_may_be_lost(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    async with one_slow(before) as (scene, client):
        assert await client.produce(0) == (ErrorCode.NONE, 0)
        assert await client.produce(0, acks=-1) == (ErrorCode.NONE, 1)
        with scene.files.held(scene.dir_of("orders", 0).folder):
            await client.send(producing(0), 9)
            await async_until(lambda: scene.files.held_appends.acquire(blocking=False))
            shutil.copytree(before, after)  # state after kill -9
    async with running(after) as scene:
        client = await scene.client()
        assert await client.end(0) == 2
        assert await client.produce(0) == (ErrorCode.NONE, 2)


@scenario
async def test_a_write_that_fails_is_never_acknowledged_and_its_offset_is_given_again(tmp_path: Path) -> None:
    of_producer = {"producer_id": 7, "producer_epoch": 0}
    async with one_slow(tmp_path) as (scene, client):
        folder = scene.dir_of("orders", 0).folder
        assert await client.produce(0, base_sequence=0, **of_producer) == (ErrorCode.NONE, 0)
        for acks in (1, -1):
            scene.files.fail(folder, NO_ROOM)
            refused = await client.produce(0, acks, base_sequence=1, **of_producer)
            assert refused == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert await client.produce(0, base_sequence=1, **of_producer) == (ErrorCode.NONE, 1)
        assert await client.end(0) == 2
        scene.files.fail(folder, NO_ROOM)
        without_answer = await scene.client()
        await without_answer.send(producing(0, acks=0), 9)
        assert await without_answer._client.is_closed()
        assert await client.end(0) == 2


@scenario
async def test_a_disk_that_breaks_takes_its_log_dir_offline(tmp_path: Path) -> None:
    async with one_slow(tmp_path) as (scene, client):
        scene.files.fail(scene.dir_of("orders", 0).folder, OSError(errno.EIO, "broken"))
        assert (await client.produce(0))[0] is ErrorCode.KAFKA_STORAGE_ERROR
        await async_until(lambda: bool(scene.broker.replicas.offline))
        assert (await client.produce(0))[0] is ErrorCode.KAFKA_STORAGE_ERROR
        assert await client.produce(1) == (ErrorCode.NONE, 0)


# -- coordinators ---------------------------------------------------------------------------------------------


def committing(offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    return OffsetCommitRequest(group_id="readers", generation_id_or_member_epoch=-1, topics=[topic])


async def commit(client: Asking, offset: int) -> ErrorCode:
    answer = await client(committing(offset), 8)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def committed(client: Asking) -> int:
    topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
    wanted = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="readers", topics=topics)])
    answer = await client(wanted, 8)
    offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
    return offset


async def slow_coordinator(scene: Scene, client: Asking) -> LogDir:
    """The dir of the group's coordinator, which is known to be slow. Offset 1 is committed."""
    await client.create("orders", 1)
    await client(FindCoordinatorRequest(key="readers"), 3)
    await async_eventually(lambda: commit(client, 1), lambda error: not error)
    log_dir = scene.dir_of("__consumer_offsets", 0)
    log_dir.disk.write_in_thread()
    return log_dir


@scenario
async def test_a_group_coordinator_answers_when_its_records_are_written(tmp_path: Path) -> None:
    async with running(tmp_path) as scene:
        client, other = await scene.client(), await scene.client()
        log_dir = await slow_coordinator(scene, client)
        with scene.files.held(log_dir.folder):
            await client.send(committing(2), 8)
            await async_until(lambda: scene.files.held_appends.acquire(blocking=False))
            await other.ping()
        assert (await client.answer(committing(2), 8)).topics[0].partitions[0].error_code == 0
        assert await committed(client) == 2


@scenario
async def test_group_coordinator_reverts_unwritten_changes(tmp_path: Path) -> None:
    async with running(tmp_path) as scene:
        client = await scene.client()
        log_dir = await slow_coordinator(scene, client)
        scene.files.fail(log_dir.folder, NO_ROOM)
        assert await commit(client, 2) is not ErrorCode.NONE
        await async_eventually(lambda: commit(client, 3), lambda error: not error)
        assert await committed(client) == 3


@scenario
async def test_after_a_failed_commit_the_last_one_that_was_written_counts(tmp_path: Path) -> None:
    async with running(tmp_path) as scene:
        client = await scene.client()
        log_dir = await slow_coordinator(scene, client)
        scene.files.fail(log_dir.folder, NO_ROOM)
        assert await commit(client, 2) is not ErrorCode.NONE
        assert await async_eventually(lambda: committed(client), lambda offset: offset >= 0) == 1
