"""The deltas that lead from one image to another: for whoever missed entries that are no longer there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from barnabas.cluster.deltas import (
    BrokerRemoved,
    BrokerStored,
    ClusterCreated,
    ConfigsChanged,
    ControllerElected,
    Delta,
    FeatureFinalized,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeleted,
)
from barnabas.cluster.image import MetadataImage, Resource, ResourceType, TopicState


def difference(before: MetadataImage, after: MetadataImage) -> list[Delta]:
    """`apply(before, difference(before, after))` equals `after`, but for the offset."""
    return [
        *_cluster(before, after),
        *_brokers(before, after),
        *_topics(before, after),
        *_configs(before, after),
    ]


def _cluster(before: MetadataImage, after: MetadataImage) -> Iterator[Delta]:
    if after.cluster_id != before.cluster_id:
        yield ClusterCreated(after.cluster_id)
    elected = (after.controller_id, after.controller_epoch)
    if elected != (before.controller_id, before.controller_epoch):
        yield ControllerElected(*elected)
    for name in before.features.keys() | after.features.keys():
        level = after.features.get(name, 0)
        if level != before.features.get(name, 0):
            yield FeatureFinalized(name, level)
    if after.next_producer_id != before.next_producer_id:
        yield ProducerIdsAllocated(after.next_producer_id)


def _brokers(before: MetadataImage, after: MetadataImage) -> Iterator[Delta]:
    yield from (BrokerRemoved(broker_id) for broker_id in before.brokers if broker_id not in after.brokers)
    for broker in after.brokers.values():
        if broker != before.brokers.get(broker.id):
            yield BrokerStored(broker)


def _topics(before: MetadataImage, after: MetadataImage) -> Iterator[Delta]:
    # A name may have passed from one topic to another: the old one goes first.
    for topic in before.topics.values():
        if topic.topic_id not in after.topic_names_by_id:
            yield TopicDeleted(topic.topic_id)
    for topic in after.topics.values():
        known = before.topic_by_id(topic.topic_id)
        if known is None:
            yield TopicCreated(topic)
        elif known is not topic:
            yield from _partitions(known, topic)


def _partitions(before: TopicState, after: TopicState) -> Iterator[Delta]:
    for index, (old, new) in enumerate(zip(before.partitions, after.partitions, strict=False)):
        if old != new:
            yield PartitionChanged(after.topic_id, index, new)
    added = after.partitions[len(before.partitions) :]
    if added:
        yield PartitionsAdded(after.topic_id, added)


def _configs(before: MetadataImage, after: MetadataImage) -> Iterator[Delta]:
    for resource in before.configs.keys() | after.configs.keys():
        old = _configs_left(before, after, resource)
        new = after.configs.get(resource, {})
        changes: dict[str, str | None] = {name: None for name in old if name not in new}
        changes |= {name: value for name, value in new.items() if old.get(name) != value}
        if changes:
            yield ConfigsChanged(resource.type, resource.name, changes)


def _configs_left(before: MetadataImage, after: MetadataImage, resource: Resource) -> Mapping[str, str]:
    """What is still set once deleted topics have taken their configs with them."""
    topic = before.topics.get(resource.name) if resource.type == ResourceType.TOPIC else None
    if topic is not None and topic.topic_id not in after.topic_names_by_id:
        return {}
    return before.configs.get(resource, {})
