"""Where partitions begin and end, and which offset belongs to a moment."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from barnabas.client.cluster import Client, raise_for
from barnabas.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.common.types import TopicPartition

# Questions that are no moments (ListOffsets' own numbers).
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4  # KIP-405: what lies before it is only in the object store
LATEST_TIERED = -5  # KIP-1005: the last offset in the object store

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


class OffsetAndTimestamp(NamedTuple):
    offset: int  # -1: no record is that new
    timestamp: int
    leader_epoch: int


class OffsetRange(NamedTuple):
    """Offsets of one partition: from `first` up to, without, `until`. Compaction may have left fewer records."""

    place: TopicPartition
    first: int
    until: int

    @property
    def size(self) -> int:
        return self.until - self.first


async def beginning_offsets(
    client: Client, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    answers = await list_offsets(client, dict.fromkeys(partitions, EARLIEST))
    return {partition: answer.offset for partition, answer in answers.items()}


async def end_offsets(
    client: Client, partitions: Iterable[TopicPartition], isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, int]:
    """The high watermark, or the last stable offset for those who read committed records only."""
    answers = await list_offsets(client, dict.fromkeys(partitions, LATEST), isolation)
    return {partition: answer.offset for partition, answer in answers.items()}


async def list_offsets(
    client: Client, moments: Mapping[TopicPartition, int], isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """The first record at or after a time (epoch milliseconds), or what a word above asks, by partition."""
    topics = {partition.topic for partition in moments}
    found: dict[TopicPartition, OffsetAndTimestamp] = await client.retry(
        lambda: list_offsets_once(client, moments, isolation), topics
    )
    return found


async def list_offsets_once(
    client: Client, moments: Mapping[TopicPartition, int], isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """The same for those who know better what to do when it fails."""
    by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
    for partition, moment in moments.items():
        by_leader[await client.leader(partition)][partition] = moment
    asked = (_ask(client, leader, part, isolation) for leader, part in by_leader.items())
    return {partition: answer for found in await asyncio.gather(*asked) for partition, answer in found}


async def _ask(
    client: Client, leader: int, moments: Mapping[TopicPartition, int], isolation: int
) -> list[tuple[TopicPartition, OffsetAndTimestamp]]:
    response = await client.send_to_broker(leader, offsets_request(client, moments, isolation))
    return [(place, _checked(place.topic, answer)) for place, answer in answers_in(response)]


def offsets_request(
    client: Client, moments: Mapping[TopicPartition, int], isolation: int = READ_UNCOMMITTED
) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for (name, index), moment in moments.items():
        topic = topics.setdefault(name, ListOffsetsTopic(name=name))
        topic.partitions.append(ListOffsetsPartition(partition_index=index, timestamp=moment))
    timeout_ms = int(client.request_timeout * 1000)
    return ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=list(topics.values()), timeout_ms=timeout_ms
    )


def answers_in(
    response: ListOffsetsResponse,
) -> Iterator[tuple[TopicPartition, ListOffsetsPartitionResponse]]:
    for topic in response.topics:
        for answer in topic.partitions:
            yield TopicPartition(topic.name, answer.partition_index), answer


def _checked(topic: str, answer: ListOffsetsPartitionResponse) -> OffsetAndTimestamp:
    raise_for(answer.error_code, f"offsets of {topic}-{answer.partition_index}")
    return OffsetAndTimestamp(answer.offset, answer.timestamp, answer.leader_epoch)
