"""Brokers, topics and partition layout; read page by page (KIP-966), so that no response is large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from barnabas.client import BrokerMetadata, Client, UnsupportedApiError
from barnabas.common.types import Uuid
from barnabas.protocol.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from barnabas.services.console.sampling.snapshot import PartitionLayout, Slices

TIMEOUT = 10.0
"""Timeout in seconds of each request. A slower broker keeps its previous figures."""
PAGE = 500
"""Partitions per response: a few milliseconds to decode."""


class TopicLayout(NamedTuple):
    name: str
    id: Uuid
    internal: bool
    partitions: tuple[PartitionLayout, ...]


class ClusterTopology(NamedTuple):
    cluster_id: str
    controller: int
    brokers: Mapping[int, BrokerMetadata]
    topics: Mapping[str, TopicLayout]
    """Sorted by name."""

    @property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics.values())


async def read_topology(client: Client) -> ClusterTopology:
    metadata = await client.refresh([])
    try:
        layouts = await _read_pages(client)
    except UnsupportedApiError:  # before Kafka 3.8: all in one answer
        layouts = await _read_at_once(client)
    topics = {name: layouts[name] for name in sorted(layouts)}
    return ClusterTopology(metadata.cluster_id or "", metadata.controller_id, metadata.brokers, topics)


async def _read_pages(client: Client) -> dict[str, TopicLayout]:
    found: dict[str, TopicLayout] = {}
    tuples = _Tuples()
    cursor: Cursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(response_partition_limit=PAGE, cursor=cursor)
        response: DescribeTopicPartitionsResponse = await client.send_to_any(request, TIMEOUT)
        for layout in _layouts(response.topics, tuples):
            begun = found.get(layout.name)
            if begun is not None:  # the previous page ended within this topic
                layout = layout._replace(partitions=begun.partitions + layout.partitions)
            found[layout.name] = layout
        if response.next_cursor is None:
            return found
        cursor = response.next_cursor


async def _read_at_once(client: Client) -> dict[str, TopicLayout]:
    slices = Slices()
    found = {}
    for name, topic in (await client.all_topics()).items():
        if not topic.error:
            partitions = tuple(
                PartitionLayout(one.index, one.leader, one.leader_epoch, one.replicas, one.isr, one.offline)
                for one in topic.partitions.values()
            )
            found[name] = TopicLayout(name, topic.id, topic.internal, partitions)
        await slices.rest()
    return found


class _Tuples:
    """Interns broker lists: the same few occur in thousands of partitions."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], tuple[int, ...]] = {}

    def get(self, numbers: Iterable[int]) -> tuple[int, ...]:
        key = tuple(numbers)
        return self._known.setdefault(key, key)


def _layouts(topics: list[DescribeTopicPartitionsResponseTopic], tuples: _Tuples) -> Iterator[TopicLayout]:
    for topic in topics:
        if not topic.error_code and topic.name is not None:
            partitions = tuple([_partition(partition, tuples) for partition in topic.partitions])
            yield TopicLayout(topic.name, topic.topic_id, topic.is_internal, partitions)


def _partition(partition: DescribeTopicPartitionsResponsePartition, tuples: _Tuples) -> PartitionLayout:
    return PartitionLayout(
        partition.partition_index,
        partition.leader_id,
        partition.leader_epoch,
        tuples.get(partition.replica_nodes),
        tuples.get(partition.isr_nodes),
        tuples.get(partition.offline_replicas),
    )
