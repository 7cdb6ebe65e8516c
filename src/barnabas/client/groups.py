"""Administration of groups: list, describe, read and commit offsets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from barnabas.client.cluster import Client, raise_for
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.consumer import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer import DescribedGroup as DescribedConsumerGroup
from barnabas.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribedGroup,
    DescribeGroupsRequest,
    ListedGroup,
    ListGroupsRequest,
)
from barnabas.protocol.messages.metadata import FindCoordinatorRequest
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from barnabas.protocol.messages.share import DescribedGroup as DescribedShareGroup
from barnabas.protocol.messages.share import ShareGroupDescribeRequest
from barnabas.protocol.messages.streams import DescribedGroup as DescribedStreamsGroup
from barnabas.protocol.messages.streams import StreamsGroupDescribeRequest
from barnabas.protocol.schema import Message

GROUP = 0  # the key type of FindCoordinator
DEAD = "Dead"


class CommittedOffset(NamedTuple):
    offset: int
    metadata: str = ""
    leader_epoch: int = -1


async def list_groups(client: Client) -> list[tuple[int, ListedGroup]]:
    """(coordinator, group) of all brokers; a KafkaError when one cannot answer."""
    metadata = await client.refresh([])
    found = []
    for broker_id in sorted(metadata.brokers):
        response = await client.send_to_broker(broker_id, ListGroupsRequest())
        raise_for(response.error_code)
        found += [(broker_id, group) for group in response.groups]
    return found


async def describe_group(client: Client, group: str) -> tuple[int, DescribedGroup]:
    """The coordinator of a group, and its members; GROUP_ID_NOT_FOUND if it does not exist."""
    coordinator, described = await ask_about(client, group, DescribeGroupsRequest(groups=[group]))
    if described.group_state == DEAD:  # older brokers
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group} not found.")
    return coordinator, described


async def describe_consumer_group(client: Client, group: str) -> tuple[int, DescribedConsumerGroup]:
    """Coordinator and description of a consumer group (KIP-848)."""
    return await ask_about(client, group, ConsumerGroupDescribeRequest(group_ids=[group]))


async def describe_streams_group(client: Client, group: str) -> tuple[int, DescribedStreamsGroup]:
    """Coordinator and description of a streams group (KIP-1071)."""
    return await ask_about(client, group, StreamsGroupDescribeRequest(group_ids=[group]))


async def describe_share_group(client: Client, group: str) -> tuple[int, DescribedShareGroup]:
    """Coordinator and description of a share group (KIP-932)."""
    return await ask_about(client, group, ShareGroupDescribeRequest(group_ids=[group]))


async def committed_offsets(client: Client, group: str) -> dict[TopicPartition, CommittedOffset]:
    """All committed offsets of a group."""
    wanted = OffsetFetchRequestGroup(group_id=group, topics=None)
    answer: OffsetFetchResponseGroup
    _, answer = await ask_about(client, group, OffsetFetchRequest(groups=[wanted]))
    names = {state.id: name for name, state in (await client.all_topics()).items()}
    return {
        TopicPartition(topic.name or names[topic.topic_id], partition.partition_index): CommittedOffset(
            partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
        )
        for topic in answer.topics
        for partition in topic.partitions
        if partition.committed_offset >= 0
    }


async def commit_offsets(
    client: Client, group: str, offsets: Mapping[TopicPartition, int | CommittedOffset]
) -> None:
    """Commit offsets, optionally with metadata; rejected while the group has members."""
    await send_commit(client, group, offsets)


async def send_commit(
    client: Client,
    group: str,
    offsets: Mapping[TopicPartition, int | CommittedOffset],
    member_id: str = "",
    epoch: int = -1,
) -> None:
    """Commit as a member, with its epoch or generation."""
    known = await client.topics({tp.topic for tp in offsets})
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (name, index), wanted in offsets.items():
        commit = wanted if isinstance(wanted, CommittedOffset) else CommittedOffset(wanted)
        topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name, topic_id=known[name].id))
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=commit.offset,
                committed_leader_epoch=commit.leader_epoch,
                committed_metadata=commit.metadata,
            )
        )

    def check(response: OffsetCommitResponse) -> None:
        for topic in response.topics:
            for partition in topic.partitions:
                raise_for(partition.error_code, group)

    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=list(topics.values()),
    )
    await ask_coordinator(client, group, request, check)


async def delete_group(client: Client, group: str) -> None:
    def check(response: Any) -> None:
        raise_for(response.results[0].error_code, group)

    await ask_coordinator(client, group, DeleteGroupsRequest(groups_names=[group]), check)


async def ask_about(client: Client, group: str, request: Message) -> tuple[int, Any]:
    """Coordinator and its response about one group; raises the group's error."""

    def check(response: Any) -> None:
        answer = response.groups[0]
        raise_for(answer.error_code, getattr(answer, "error_message", None) or group)

    coordinator, response = await ask_coordinator(client, group, request, check)
    return coordinator, response.groups[0]


async def ask_coordinator(
    client: Client, group: str, request: Message, check: Callable[[Any], None]
) -> tuple[int, Any]:
    """Retry until the group coordinator responds; `check` raises errors of the response."""

    async def attempt() -> tuple[int, Any]:
        coordinator = await find_coordinator(client, group)
        response = await client.send_to_broker(coordinator, request)
        check(response)
        return coordinator, response

    answer: tuple[int, Any] = await client.retry(attempt)
    return answer


async def find_coordinator(client: Client, group: str) -> int:
    request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=[group])
    found = (await client.send_to_any(request)).coordinators[0]
    raise_for(found.error_code, found.error_message or group)
    return int(found.node_id)


async def member_offsets(
    client: Client,
    group: str,
    partitions: Collection[TopicPartition],
    member_id: str | None = None,
    epoch: int = -1,
) -> dict[TopicPartition, CommittedOffset]:
    """Committed offsets of some partitions, after open transactions that commit offsets have ended."""
    known = await client.topics({tp.topic for tp in partitions})
    topics = [
        OffsetFetchRequestTopics(
            name, known[name].id, [tp.partition for tp in partitions if tp.topic == name]
        )
        for name in known
    ]
    wanted = OffsetFetchRequestGroup(group, member_id, epoch, topics)
    names = {state.id: name for name, state in known.items()}

    def check(response: OffsetFetchResponse) -> None:
        answer = response.groups[0]
        raise_for(answer.error_code, group)
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                    raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "a transaction is committing offsets")
                raise_for(partition.error_code, group)

    request = OffsetFetchRequest(groups=[wanted], require_stable=True)
    _, response = await ask_coordinator(client, group, request, check)
    return {
        TopicPartition(topic.name or names[topic.topic_id], partition.partition_index): CommittedOffset(
            partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
        )
        for topic in response.groups[0].topics
        for partition in topic.partitions
        if partition.committed_offset >= 0
    }
