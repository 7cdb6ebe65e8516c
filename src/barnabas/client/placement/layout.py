"""Layout of a cluster: brokers, replicas with their sizes, and reassignments in progress."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from barnabas.client import admin
from barnabas.client.addresses import Address
from barnabas.client.cluster import Client, raise_for
from barnabas.client.errors import ClientError
from barnabas.client.metadata import BrokerMetadata, PartitionMetadata
from barnabas.client.placement import reassignments
from barnabas.client.placement.planner import Site
from barnabas.client.placement.reassignments import Reassignment
from barnabas.common.errors import KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.cluster import DescribeClusterRequest, DescribeClusterResponse

SHOWS_FENCED = 2  # the version of DescribeCluster that includes fenced brokers


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    cluster_id: str
    controller_id: int
    brokers: Mapping[int, BrokerMetadata]
    fenced: Mapping[int, BrokerMetadata]
    partitions: Mapping[TopicPartition, PartitionMetadata]
    moving: Mapping[TopicPartition, Reassignment]
    sizes: Mapping[int, Mapping[TopicPartition, int]]
    """Bytes of each replica by broker; brokers that did not respond are missing."""

    @property
    def sites(self) -> list[Site]:
        """The brokers that can take replicas."""
        return [Site(broker.id, broker.address.host, broker.rack) for broker in self.brokers.values()]

    @property
    def assignment(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Replicas of each partition after the reassignments in progress."""
        return {
            tp: self.moving[tp].target if tp in self.moving else partition.replicas
            for tp, partition in self.partitions.items()
        }

    def copied(self, tp: TopicPartition) -> int:
        """Bytes of the slowest new replica of a partition in reassignment."""
        adding = self.moving[tp].adding
        if not adding:
            return self.partition_sizes.get(tp, 0)
        return min(self.sizes.get(broker, {}).get(tp, 0) for broker in adding)

    @property
    def partition_sizes(self) -> dict[TopicPartition, int]:
        """Size of the largest replica: one that is being copied is incomplete."""
        largest: dict[TopicPartition, int] = {}
        for sizes in self.sizes.values():
            for partition, size in sizes.items():
                largest[partition] = max(size, largest.get(partition, 0))
        return largest


async def describe_moving(client: Client) -> ClusterLayout:
    """Reassignments in progress with the sizes of their partitions: cheap enough for polling."""
    moving = await reassignments.in_progress(client)
    topics: dict[str, list[int]] = {}
    for tp in moving:
        topics.setdefault(tp.topic, []).append(tp.partition)
    holders = {broker for each in moving.values() for broker in each.replicas}
    known = client.metadata.brokers or (await client.refresh([])).brokers
    sizes = await replica_sizes(client, sorted(holders & known.keys()), topics) if moving else {}
    return ClusterLayout("", -1, known, {}, {}, moving, sizes)


@dataclass(frozen=True, slots=True)
class ClusterBrokers:
    cluster_id: str
    controller_id: int
    brokers: Mapping[int, BrokerMetadata]
    """All registered brokers by id; older brokers omit those that are down."""
    up: frozenset[int]


async def brokers_of_cluster(client: Client) -> ClusterBrokers:
    described = await _describe_cluster(client)
    found = {
        each.broker_id: BrokerMetadata(each.broker_id, Address(each.host, each.port), each.rack)
        for each in described.brokers
    }
    up = frozenset(each.broker_id for each in described.brokers if not each.is_fenced)
    return ClusterBrokers(described.cluster_id, described.controller_id, dict(sorted(found.items())), up)


async def describe_layout(client: Client) -> ClusterLayout:
    """Describe the layout with several requests: not an atomic snapshot."""
    moving = await reassignments.in_progress(client)
    described = await brokers_of_cluster(client)
    topics = await client.all_topics()
    live = dict(client.metadata.brokers)
    return ClusterLayout(
        described.cluster_id,
        described.controller_id,
        dict(sorted(live.items())),
        {number: broker for number, broker in described.brokers.items() if number not in described.up},
        {
            TopicPartition(name, index): partition
            for name, topic in sorted(topics.items())
            for index, partition in topic.partitions.items()
        },
        moving,
        await replica_sizes(client, live),
    )


async def _describe_cluster(client: Client) -> DescribeClusterResponse:
    connection = await client.any_connection()
    can_show = connection.version_for(DescribeClusterRequest) >= SHOWS_FENCED
    response: DescribeClusterResponse = await connection.send(
        DescribeClusterRequest(include_fenced_brokers=can_show)
    )
    raise_for(response.error_code, response.error_message or "")
    return response


async def replica_sizes(
    client: Client, brokers: Iterable[int], topics: Mapping[str, Iterable[int]] | None = None
) -> dict[int, dict[TopicPartition, int]]:
    """Replica sizes of each broker that responds, of all partitions or the given ones."""
    brokers = list(brokers)
    answers = await asyncio.gather(*(_sizes_on(client, broker, topics) for broker in brokers))
    return {broker: sizes for broker, sizes in zip(brokers, answers, strict=True) if sizes is not None}


async def _sizes_on(
    client: Client, broker: int, topics: Mapping[str, Iterable[int]] | None
) -> dict[TopicPartition, int] | None:
    """None for an unreachable broker, so that the others are still shown."""
    try:
        folders = await admin.describe_log_dirs(client, broker, topics)
    except (ClientError, KafkaError):
        return None
    return {
        TopicPartition(topic.name, part.partition_index): part.partition_size
        for folder in folders
        for topic in folder.topics
        for part in topic.partitions
        if not part.is_future_key
    }
