"""Progress of a share group in a topic, and its members."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.client.cluster import Client
from barnabas.client.groups import ask_about, describe_share_group
from barnabas.client.offsets import end_offsets
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.share import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponsePartition,
    Member,
)

NOT_STARTED = -1


class QueuePartition(NamedTuple):
    partition: int
    start: int | None
    """None until the partition is initialized for the group."""
    end: int
    lag: int


class QueueMember(NamedTuple):
    member: str
    client: str
    host: str
    partitions: list[TopicPartition]


class QueueStatus(NamedTuple):
    group: str
    topic: str
    state: str
    lag: int
    partitions: list[QueuePartition]
    members: list[QueueMember]


async def describe_queue(client: Client, topic: str, group: str) -> QueueStatus:
    tps = await client.partitions([topic])
    _, described = await describe_share_group(client, group)
    starts = await _starts(client, topic, group, [tp.partition for tp in tps])
    ends = await end_offsets(client, tps)
    partitions = [_partition(tp, starts.get(tp.partition), ends[tp]) for tp in tps]
    members = [_member(member) for member in described.members]
    lag = sum(partition.lag for partition in partitions)
    return QueueStatus(group, topic, described.group_state, lag, partitions, members)


def _partition(
    tp: TopicPartition, start: DescribeShareGroupOffsetsResponsePartition | None, end: int
) -> QueuePartition:
    """Progress of a partition; unknown until it is initialized for the group."""
    offset = start.start_offset if start is not None and start.start_offset != NOT_STARTED else None
    lag = start.lag if start is not None and start.lag >= 0 else end - (offset or 0)
    return QueuePartition(tp.partition, offset, end, lag)


def _member(member: Member) -> QueueMember:
    partitions = [
        TopicPartition(topic.topic_name, index)
        for topic in member.assignment.topic_partitions
        for index in topic.partitions
    ]
    return QueueMember(member.member_id, member.client_id, member.client_host, partitions)


async def _starts(
    client: Client, topic: str, group: str, partitions: list[int]
) -> dict[int, DescribeShareGroupOffsetsResponsePartition]:
    request_topic = DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)
    wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=[request_topic])
    _, answer = await ask_about(client, group, DescribeShareGroupOffsetsRequest(groups=[wanted]))
    return {
        partition.partition_index: partition
        for found in answer.topics
        for partition in found.partitions
        if not partition.error_code
    }
