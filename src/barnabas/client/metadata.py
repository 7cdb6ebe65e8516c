"""Immutable cluster metadata, built from a Metadata response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.client.addresses import Address
from barnabas.client.errors import error_code
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition, Uuid
from barnabas.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


@dataclass(frozen=True, slots=True)
class BrokerMetadata:
    id: int
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    index: int
    leader: int  # -1 when there is none
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    name: str
    id: Uuid
    internal: bool
    partitions: Mapping[int, PartitionMetadata]
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    cluster_id: str | None = None
    controller_id: int = -1
    brokers: Mapping[int, BrokerMetadata] = field(default_factory=dict)
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    topic_names: Mapping[Uuid, str] = field(default_factory=dict)

    def partition(self, partition: TopicPartition) -> PartitionMetadata:
        """Raises the KafkaError that a broker would answer with."""
        topic = self.topics.get(partition.topic)
        if topic is None or topic.error:
            code = topic.error if topic else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise KafkaError(code, explain_topic_error(partition.topic, code))
        found = topic.partitions.get(partition.partition)
        if found is None:
            count = len(topic.partitions)
            text = f"topic {topic.name!r} has partitions 0 to {count - 1}; there is no {partition.partition}"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        return found

    def with_topics(self, newer: ClusterMetadata) -> ClusterMetadata:
        """Merge a newer response for some topics with the metadata of the others."""
        topics = {**self.topics, **newer.topics}
        return ClusterMetadata(
            newer.cluster_id,
            newer.controller_id,
            newer.brokers,
            topics,
            {topic.id: topic.name for topic in topics.values()},
        )


def explain_topic_error(topic: str, code: ErrorCode) -> str:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"topic {topic!r} does not exist; create it with `barnabas topics create {topic}`"
    if code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return f"{topic!r} is not a valid topic name: letters, digits, '.', '_' and '-' only, at most 249 of them"
    if code == ErrorCode.LEADER_NOT_AVAILABLE:
        return f"topic {topic!r} has no leader yet; it may just have been created"
    return f"topic {topic!r}"


def from_response(response: MetadataResponse) -> ClusterMetadata:
    topics = [_topic(topic) for topic in response.topics]
    brokers = (BrokerMetadata(b.node_id, Address(b.host, b.port), b.rack) for b in response.brokers)
    return ClusterMetadata(
        response.cluster_id,
        response.controller_id,
        {broker.id: broker for broker in brokers},
        {topic.name: topic for topic in topics},
        {topic.id: topic.name for topic in topics},
    )


def _topic(topic: MetadataResponseTopic) -> TopicMetadata:
    partitions = {partition.partition_index: _partition(partition) for partition in topic.partitions}
    return TopicMetadata(
        topic.name or "",
        topic.topic_id,
        topic.is_internal,
        dict(sorted(partitions.items())),
        error_code(topic.error_code),
    )


def _partition(partition: MetadataResponsePartition) -> PartitionMetadata:
    return PartitionMetadata(
        partition.partition_index,
        partition.leader_id,
        partition.leader_epoch,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(partition.offline_replicas),
    )
