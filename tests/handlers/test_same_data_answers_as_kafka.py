"""The same produce and read requests to Apache Kafka and Barnabas must get the same responses.

What cannot be the same is left out before comparing: ids, ports, the text of errors, the time of an append.
"""

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.connection import BrokerConnection
from barnabas.common.errors import ErrorCode
from barnabas.common.types import Uuid
from barnabas.protocol.messages.cluster import DescribableLogDirTopic, DescribeLogDirsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.transactions import (
    DescribeProducersRequest,
    InitProducerIdRequest,
    TopicRequest,
)
from barnabas.protocol.schema import Message, Struct
from barnabas.records.builder import build_batch
from barnabas.records.compression import Codec
from barnabas.records.record import Record
from barnabas.testing import EmbeddedBroker
from tests.support.kafka.broker import ApacheKafka
from tests.support.waiting import async_eventually

pytestmark = pytest.mark.java

NOW = int(time.time() * 1000) - 60_000
TOPICS = {
    "plain": {},
    "keyed": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "small": {"max.message.bytes": "300"},
    "old": {"message.timestamp.before.max.ms": "1000"},
}
NOT_COMPARED = {
    "batch_index_error_message",
    "cluster_id",
    "error_message",
    "host",
    "log_append_time_ms",
    "log_dir",
    "port",
    "producer_id",
    "session_id",
    "throttle_time_ms",
    "topic_id",
    "total_bytes",
    "usable_bytes",
}
Question = tuple[Message, int]
Ids = dict[str, Uuid]


def batch(*values: bytes, timestamp: int = NOW, key: bytes | None = b"k", **options: Any) -> bytes:
    records = [Record(0, timestamp + number, key, value) for number, value in enumerate(values)]
    return bytes(build_batch(records, **options))


def numbered(sequence: int, count: int = 1, *, epoch: int = 0, producer: int = 4242) -> bytes:
    values = [b"value"] * count
    return batch(*values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def write(
    ids: Ids, topic: str, data: bytes | None, version: int = 12, partition: int = 0, acks: int = -1
) -> Question:
    written = PartitionProduceData(index=partition, records=data)
    named = TopicProduceData(name=topic, topic_id=ids.get(topic, b"y" * 16), partition_data=[written])
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[named]), version


def writes(ids: Ids) -> Iterator[Question]:
    for version in range(3, 14):
        yield write(ids, "plain", batch(b"one", b"two"), version)
        yield write(ids, "nope", batch(b"one"), version)
        yield write(ids, "plain", batch(b"one"), version, partition=9)
        yield write(ids, "stamped", batch(b"one"), version, acks=1)
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        yield write(ids, "plain", batch(b"a" * 50, b"b" * 50, compression=codec), 9)
    yield write(ids, "plain", batch(b"zstd", compression=Codec.ZSTD), 6)
    yield write(ids, "plain", batch(b"x"), acks=5)
    yield write(ids, "plain", batch(b"one") + batch(b"two"))
    yield write(ids, "plain", batch(b"mine", control=True, producer_id=1, producer_epoch=0, base_sequence=0))
    yield write(ids, "plain", batch(b"damaged")[:-1] + b"!")
    yield write(ids, "plain", batch(b"short")[:-3])
    yield write(ids, "small", batch(b"x" * 400))
    yield write(ids, "keyed", batch(b"one", key=None))
    yield write(ids, "keyed", batch(b"one"))
    yield write(ids, "plain", batch(b"soon", timestamp=NOW + 10 * 3_600_000))
    yield write(ids, "old", batch(b"late"))
    for sequence, count, epoch in [
        (0, 2, 0),
        (2, 1, 0),
        (2, 1, 0),
        (0, 2, 0),
        (9, 1, 0),
        (3, 1, 1),
        (0, 1, 1),
        (1, 1, 0),
    ]:
        yield write(ids, "plain", numbered(sequence, count, epoch=epoch), partition=1)
    yield write(ids, "plain", numbered(7, producer=77), partition=1)
    yield write(ids, "__consumer_offsets", batch(b"mine"))


def read(
    ids: Ids,
    topic: str,
    offset: int,
    version: int = 12,
    *,
    partition: int = 0,
    limit: int = 1 << 20,
    **other: Any,
) -> Question:
    complete = other.pop("max_bytes", 1 << 20)
    isolation = other.pop("isolation_level", 0)
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=limit, **other)
    named = FetchTopic(topic=topic, topic_id=ids.get(topic, b"y" * 16), partitions=[wanted])
    return FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=complete, isolation_level=isolation, topics=[named]
    ), version


def reads(ids: Ids) -> Iterator[Question]:
    for version in range(4, 19):
        yield read(ids, "plain", 0, version)
        yield read(ids, "plain", 1, version, limit=1)
        yield read(ids, "nope", 0, version)
        yield read(ids, "plain", 0, version, partition=9)
        yield read(ids, "plain", 10_000, version)
    yield read(ids, "plain", -1)
    yield read(ids, "plain", 0, max_bytes=1)
    yield read(ids, "plain", 0, max_bytes=0)
    yield read(ids, "plain", 3, limit=0)
    yield read(ids, "plain", 0, isolation_level=1)
    yield read(ids, "plain", 0, current_leader_epoch=0)
    yield read(ids, "plain", 0, current_leader_epoch=5)
    yield read(ids, "plain", 2, last_fetched_epoch=0)
    yield read(ids, "plain", 2, last_fetched_epoch=4)
    yield read(ids, "keyed", 1)


def looked_up(
    topic: str, *timestamps: int, version: int = 7, epoch: int = -1, partition: int = 0
) -> Question:
    rows = [ListOffsetsPartition(partition, epoch, timestamp) for timestamp in timestamps]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(topic, rows)]), version


def look_ups(ids: Ids) -> Iterator[Question]:
    for version in range(1, 12):
        for timestamp in (-1, -2, 0, NOW, NOW + 1, NOW + 2, NOW + 3_600_000):
            yield looked_up("plain", timestamp, version=version)
        yield looked_up("nope", -1, version=version)
        yield looked_up("plain", -1, version=version, partition=9)
    for timestamp in (-3, -4, -5, -6, -7, -100):
        for version in (6, 7, 8, 9, 11):
            yield looked_up("plain", timestamp, version=version)
            yield looked_up("keyed", timestamp, version=version)
    yield looked_up("plain", -1, -2)
    yield looked_up("plain", -1, epoch=0)
    yield looked_up("plain", -1, epoch=3)
    yield looked_up("small", -3)
    yield looked_up("small", NOW)


def epochs(ids: Ids) -> Iterator[Question]:
    cases = [
        ("plain", 0, -1, 0),
        ("plain", 0, -1, 5),
        ("plain", 0, -1, -1),
        ("plain", 0, 0, 0),
        ("plain", 0, 4, 0),
    ]
    for topic, partition, current, epoch in [
        *cases,
        ("plain", 9, -1, 0),
        ("nope", 0, -1, 0),
        ("small", 0, -1, 0),
    ]:
        for version in (2, 3, 4):
            row = OffsetForLeaderPartition(partition, current, epoch)
            yield OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic, [row])]), version


def deletions(ids: Ids) -> Iterator[Question]:
    cases = [("plain", 0, 2), ("plain", 0, 1), ("plain", 0, 10_000), ("plain", 0, -5), ("plain", 9, 1)]
    for topic, partition, offset in [*cases, ("nope", 0, 1), ("keyed", 0, 1), ("plain", 1, -1)]:
        for version in (0, 2):
            row = DeleteRecordsPartition(partition, offset)
            yield DeleteRecordsRequest([DeleteRecordsTopic(topic, [row])], 10_000), version
    yield read(ids, "plain", 0)
    yield read(ids, "plain", 2)
    yield looked_up("plain", -2)
    yield looked_up("plain", 0)


def the_rest(ids: Ids) -> Iterator[Question]:
    for version in range(6):
        yield InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), version
    yield InitProducerIdRequest("", 1000), 4
    yield InitProducerIdRequest(None, 1000, 5, 5), 4
    topics = [TopicRequest("plain", [0, 1, 9]), TopicRequest("nope", [0])]
    yield DescribeProducersRequest(topics), 0
    for version in range(1, 6):
        yield DescribeLogDirsRequest([DescribableLogDirTopic("plain", [0, 9])]), version
        yield DescribeLogDirsRequest([]), version


def test_records_are_answered_as_apache_kafka_does(tmp_path: Path) -> None:
    settings = {"offsets.topic.num.partitions": "1"}
    with ApacheKafka(tmp_path / "kafka", heap="256m", settings=settings) as kafka, EmbeddedBroker() as broker:
        expected = asyncio.run(answers(kafka.bootstrap_servers))
        ours = asyncio.run(answers(broker.bootstrap_servers))
    different = [
        f"{question}\n" + "\n".join(differences(their_answer, our_answer))
        for (question, their_answer), (_, our_answer) in zip(expected, ours, strict=True)
        if our_answer != their_answer
    ]
    assert not different, "\n".join(different)


async def answers(address: str) -> list[tuple[str, Any]]:
    host, _, port = address.rpartition(":")
    connection = await BrokerConnection.connect(host, int(port))
    try:
        ids = await create_topics(connection)
        questions = [*writes(ids), *reads(ids), *look_ups(ids), *epochs(ids), *deletions(ids), *the_rest(ids)]
        return [
            (f"{comparable(question)} in version {version}", await answer(connection, question, version))
            for question, version in questions
        ]
    finally:
        connection.close()


async def answer(connection: BrokerConnection, question: Message, version: int) -> Any:
    def is_loaded(response: Any) -> bool:
        """False while Kafka waits for producer ids of the controller."""
        return getattr(response, "error_code", 0) != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    return comparable(await async_eventually(lambda: connection.send(question, version), is_loaded))


async def create_topics(connection: BrokerConnection) -> Ids:
    topics = [
        CreatableTopic(name, 2, 1, configs=[CreatableTopicConfig(*pair) for pair in configs.items()])
        for name, configs in TOPICS.items()
    ]
    created = await connection.send(CreateTopicsRequest(topics, 10_000), 7)
    ids = {topic.name: topic.topic_id for topic in created.topics}
    for topic in TOPICS:
        for partition in range(2):
            read = partial(latest_offset_error, connection, topic, partition)
            await async_eventually(read, lambda error: not error)
    return ids


async def latest_offset_error(connection: BrokerConnection, topic: str, partition: int) -> int:
    """Kafka answers a creation before its broker leads the partitions."""
    question, version = looked_up(topic, -1, partition=partition)
    response = await connection.send(question, version)
    code: int = response.topics[0].partitions[0].error_code
    return code


def differences(expected: Any, ours: Any, where: str = "") -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(ours, dict):
        for name in expected:
            yield from differences(expected[name], ours[name], f"{where}.{name}")
    elif isinstance(expected, list) and isinstance(ours, list) and len(expected) == len(ours):
        for number, (their_item, our_item) in enumerate(zip(expected, ours, strict=True)):
            yield from differences(their_item, our_item, f"{where}[{number}]")
    elif expected != ours:
        yield f"  {where}: {expected!r} in Kafka, {ours!r} in Barnabas"


def comparable(value: Any) -> Any:
    if isinstance(value, Struct):
        fields = {field.name: getattr(value, field.name) for field in value.FIELDS}
        return {name: comparable(part) for name, part in fields.items() if name not in NOT_COMPARED}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    return bytes(value) if isinstance(value, memoryview) else value
