"""Fetch requests and their responses: record batches as stored in the log, not decoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.client.cluster import Client, raise_for
from barnabas.client.errors import error_code
from barnabas.common.errors import ErrorCode
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

NO_SESSION = 0
NO_SESSION_EPOCH = -1  # KIP-227: a full fetch outside any session


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Names and defaults are those of Kafka's consumer (fetch.min.bytes, ...)."""

    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    max_wait: float = 0.5
    partition_bytes: int = 1024 * 1024
    isolation: int = 0  # 1: committed records only


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """The answer for one partition. `records` is a view of whole batches, the last of which may be cut off."""

    partition: TopicPartition
    fetch_offset: int
    error: ErrorCode
    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...]  # (producer id, first offset), in the order of the offsets


async def fetch(
    client: Client, broker_id: int, positions: Mapping[TopicPartition, int], settings: FetchSettings
) -> list[FetchedPartition]:
    """One request to one broker. Partitions without new data have empty records."""
    request = FetchRequest(
        max_wait_ms=int(settings.max_wait * 1000),
        min_bytes=settings.min_bytes,
        max_bytes=settings.max_bytes,
        isolation_level=settings.isolation,
        session_id=NO_SESSION,
        session_epoch=NO_SESSION_EPOCH,
        topics=_topics(client, positions, settings),
    )
    timeout = client.request_timeout + settings.max_wait
    response: FetchResponse = await client.send_to_broker(broker_id, request, timeout)
    raise_for(response.error_code)
    return [
        _fetched(TopicPartition(name, data.partition_index), data, positions)
        for topic in response.responses
        for name in [topic.topic or client.metadata.topic_names.get(topic.topic_id, "")]
        for data in topic.partitions
        if (name, data.partition_index) in positions
    ]


def _topics(
    client: Client, positions: Mapping[TopicPartition, int], settings: FetchSettings
) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for partition, offset in positions.items():
        name = partition.topic
        if name not in topics:
            topics[name] = FetchTopic(topic=name, topic_id=client.metadata.topics[name].id)
        topics[name].partitions.append(
            FetchPartition(
                partition=partition.partition,
                fetch_offset=offset,
                partition_max_bytes=settings.partition_bytes,
            )
        )
    return list(topics.values())


def _fetched(
    partition: TopicPartition, data: PartitionData, positions: Mapping[TopicPartition, int]
) -> FetchedPartition:
    aborted = sorted((txn.first_offset, txn.producer_id) for txn in data.aborted_transactions or ())
    return FetchedPartition(
        partition,
        positions[partition],
        error_code(data.error_code),
        memoryview(data.records or b""),
        data.high_watermark,
        data.last_stable_offset,
        data.log_start_offset,
        tuple((producer_id, first_offset) for first_offset, producer_id in aborted),
    )
