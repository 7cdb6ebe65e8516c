"""Frames that blocked the loop or exhausted memory in the past, and variants of them.

They are made here instead of kept as files, because some are large. Each run sends them first.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.protocol.framing import RequestHeader, encode_request
from barnabas.protocol.messages.cluster import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.groups import DescribeGroupsRequest
from barnabas.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeProducersRequest,
    ListTransactionsRequest,
    TopicRequest,
)
from barnabas.protocol.schema import Message
from tests.fuzz.batches import claims_many_records, empty_gzip_members, header_bomb
from tests.fuzz.world import BROKER_ID

BROKER = 4  # the resource type
MEGABYTE = 1_000_000
LONG_ARRAY = 100_000


def seeds() -> Iterator[tuple[str, bytes]]:
    """(description, frame); numbered like the rows of the issue."""
    yield "row 1: five million empty headers", _produce(header_bomb(5_000_000))
    yield "row 1: the same to a compacted topic", _produce(header_bomb(5_000_000, timestamp=0), "compacted")
    yield (
        "row 2: a pattern that backtracks",
        frame(ListTransactionsRequest(transactional_id_pattern="(a|aa)*b"), 2),
    )
    broker = DescribeConfigsResource(
        resource_type=BROKER, resource_name=str(BROKER_ID), configuration_keys=None
    )
    yield (
        "row 3: one broker 2,000 times",
        frame(DescribeConfigsRequest(resources=[broker] * 2000, include_synonyms=True), 4),
    )
    yield (
        "row 3: one group 100,000 times",
        frame(DescribeGroupsRequest(groups=["classic-group"] * 100_000), 5),
    )
    offsets = OffsetFetchRequestGroup(group_id="classic-group", topics=None)
    yield (
        "row 3: the offsets of one group 100,000 times",
        frame(OffsetFetchRequest(groups=[offsets] * 100_000), 8),
    )
    producers = TopicRequest(name="known", partition_indexes=[0] * 200_000)
    yield (
        "row 3: the producers of one partition 200,000 times",
        frame(DescribeProducersRequest(topics=[producers]), 0),
    )
    yield "row 4: ten megabytes of empty topics", _empty_topics(10 * MEGABYTE)
    yield "row 4: one megabyte of empty topics", _empty_topics(MEGABYTE)
    yield "row 6: 200 batches that claim two billion records", _produce(claims_many_records() * 200)
    yield "row 9: log lines of others", _forged_lines()
    yield "row 10: a megabyte of empty gzip members", _produce(empty_gzip_members(MEGABYTE))


def frame(message: Message, version: int) -> bytes:
    return b"".join(encode_request(RequestHeader(message.api_key, version, 1, "fuzz"), message))


def _produce(records: bytes, topic: str = "known") -> bytes:
    partition = PartitionProduceData(index=0, records=records)
    message = ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[partition])]
    )
    return frame(message, 9)


def _empty_topics(size: int) -> bytes:
    """In arrays that are not too long by themselves."""
    topic = AddPartitionsToTxnTopic(name="", partitions=[])
    transaction = AddPartitionsToTxnTransaction(
        transactional_id="payments", producer_id=1, producer_epoch=0, topics=[topic] * LONG_ARRAY
    )
    return frame(AddPartitionsToTxnRequest(transactions=[transaction] * (size // 3 // LONG_ARRAY)), 4)


def _forged_lines() -> bytes:
    topic = AlterReplicaLogDirTopic(name="a\nERROR forged", partitions=list(range(20_000)))
    return frame(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/nowhere", topics=[topic])]), 2)
