"""How far a share group is, and who works in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.client.cluster import raise_for
from barnabas.client.groups import ask_coordinator
from barnabas.client.offsets import end_offsets
from barnabas.protocol.messages.share import (
    DescribedGroup,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponsePartition,
    ShareGroupDescribeRequest,
)
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.cluster import Client

NOT_STARTED = -1


async def describe_queue(client: Client, topic: str, group: str) -> dict[str, Any]:
    partitions = sorted((await client.topics([topic]))[topic].partitions)
    described = await describe_share_group(client, group)
    starts = await _starts(client, topic, group, partitions)
    ends = await end_offsets(client, [TopicPartition(topic, index) for index in partitions])
    rows = [_row(index, starts.get(index), ends[TopicPartition(topic, index)]) for index in partitions]
    return {
        "group": group,
        "topic": topic,
        "state": described.group_state,
        "lag": sum(row["lag"] for row in rows),
        "partitions": rows,
        "members": [
            {
                "member": member.member_id,
                "client": member.client_id,
                "host": member.client_host,
                "partitions": [
                    f"{part.topic_name}-{index}"
                    for part in member.assignment.topic_partitions
                    for index in part.partitions
                ],
            }
            for member in described.members
        ],
    }


def _row(index: int, start: DescribeShareGroupOffsetsResponsePartition | None, end: int) -> dict[str, Any]:
    """A group that has not begun yet has no start: then nothing is known to be done."""
    offset = start.start_offset if start is not None and start.start_offset != NOT_STARTED else None
    lag = start.lag if start is not None and start.lag >= 0 else end - (offset or 0)
    return {"partition": index, "start": offset, "end": end, "lag": lag}


async def describe_share_group(client: Client, group: str) -> DescribedGroup:
    def check(response: Any) -> None:
        described: DescribedGroup = response.groups[0]
        raise_for(described.error_code, described.error_message or group)

    _, response = await ask_coordinator(client, group, ShareGroupDescribeRequest(group_ids=[group]), check)
    found: DescribedGroup = response.groups[0]
    return found


async def _starts(
    client: Client, topic: str, group: str, partitions: list[int]
) -> dict[int, DescribeShareGroupOffsetsResponsePartition]:
    asked = DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)
    wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=[asked])

    def check(response: Any) -> None:
        raise_for(response.groups[0].error_code, response.groups[0].error_message or group)

    request = DescribeShareGroupOffsetsRequest(groups=[wanted])
    _, response = await ask_coordinator(client, group, request, check)
    return {
        partition.partition_index: partition
        for found in response.groups[0].topics
        for partition in found.partitions
        if not partition.error_code
    }
