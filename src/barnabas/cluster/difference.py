"""Deltas between two images, for a broker that missed entries that are already deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from barnabas.cluster.deltas import (
    AclsChanged,
    BrokerRemoved,
    BrokerStored,
    ClientQuotasChanged,
    ClusterCreated,
    ClusterRestored,
    ConfigsChanged,
    ControllerElected,
    DelegationTokenRemoved,
    DelegationTokenStored,
    Delta,
    FeatureFinalized,
    MirrorStored,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsAllocated,
    RemoteDeletionBegun,
    RemoteDeletionEnded,
    ScramCredentialChanged,
    ScramDecoyKeyCreated,
    TopicCreated,
    TopicDeleted,
)
from barnabas.cluster.image import ConfigResourceType, MetadataImage, Resource, TopicState

_Value = TypeVar("_Value")


def difference(before: MetadataImage, after: MetadataImage) -> list[Delta]:
    """Return deltas such that `apply(before, difference(before, after))` equals `after`, except for the offset."""
    return [
        *_cluster(before, after),
        *_brokers(before, after),
        *_topics(before, after),
        *_configs(before, after),
        *_security(before, after),
        *_remote_deletions(before, after),
        *_mirrors(before, after),
    ]


def _cluster(before: MetadataImage, after: MetadataImage) -> Iterator[Delta]:
    if after.cluster_id != before.cluster_id:
        yield ClusterCreated(after.cluster_id)
    if after.incarnation != before.incarnation:
        yield ClusterRestored(after.incarnation)
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
    # A new topic may have the name of a deleted one: delete first.
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
        if changes := _changes(old, new):
            yield ConfigsChanged(resource.type, resource.name, changes)


def _changes(old: Mapping[str, _Value], new: Mapping[str, _Value]) -> dict[str, _Value | None]:
    """Values to set; None for those to remove."""
    removed = dict.fromkeys(name for name in old if name not in new)
    return removed | {name: value for name, value in new.items() if old.get(name) != value}


def _security(before: MetadataImage, after: MetadataImage) -> Iterator[Delta]:
    if after.acls != before.acls:
        yield AclsChanged(tuple(before.acls - after.acls), tuple(after.acls - before.acls))
    if after.scram_decoy_key != before.scram_decoy_key:
        yield ScramDecoyKeyCreated(after.scram_decoy_key)
    for user in before.scram_credentials.keys() | after.scram_credentials.keys():
        credential = after.scram_credentials.get(user)
        if credential != before.scram_credentials.get(user):
            yield ScramCredentialChanged(user.name, user.mechanism, credential)
    yield from map(DelegationTokenRemoved, before.delegation_tokens.keys() - after.delegation_tokens.keys())
    for token in after.delegation_tokens.values():
        if token != before.delegation_tokens.get(token.token_id):
            yield DelegationTokenStored(token)
    for entity in before.client_quotas.keys() | after.client_quotas.keys():
        if changes := _changes(before.client_quotas.get(entity, {}), after.client_quotas.get(entity, {})):
            yield ClientQuotasChanged(entity, changes)


def _remote_deletions(before: MetadataImage, after: MetadataImage) -> Iterator[Delta]:
    yield from map(RemoteDeletionEnded, before.remote_deletions.keys() - after.remote_deletions.keys())
    for deletion in after.remote_deletions.values():
        if deletion != before.remote_deletions.get(deletion.topic_id):
            yield RemoteDeletionBegun(deletion)


def _mirrors(before: MetadataImage, after: MetadataImage) -> Iterator[Delta]:
    """Changed mirrors. A mirror is removed only with its topic."""
    for mirror in after.mirrors.values():
        if mirror != before.mirrors.get(mirror.topic_id):
            yield MirrorStored(mirror)


def _configs_left(before: MetadataImage, after: MetadataImage, resource: Resource) -> Mapping[str, str]:
    """Configs in `before`, without those that are removed by the deletion of their topic."""
    topic = before.topics.get(resource.name) if resource.type == ConfigResourceType.TOPIC else None
    if topic is not None and topic.topic_id not in after.topic_names_by_id:
        return {}
    return before.configs.get(resource, {})


# -- topics that changed for groups -----------------------------------------------------------------------------


def deleted_topics(before: MetadataImage, deltas: Iterable[Delta]) -> set[str]:
    deleted = (delta.topic_id for delta in deltas if isinstance(delta, TopicDeleted))
    return {
        before.topic_names_by_id[topic_id] for topic_id in deleted if topic_id in before.topic_names_by_id
    }


def changed_topics(before: MetadataImage, deltas: Iterable[Delta]) -> set[str]:
    """New topics, and those with new partitions or other replicas; changes of leaders do not count."""
    changed: set[str] = set()
    for delta in deltas:
        if isinstance(delta, TopicCreated):
            changed.add(delta.topic.name)
        elif isinstance(delta, PartitionsAdded) or (
            isinstance(delta, PartitionChanged) and _moved(before, delta)
        ):
            name = before.topic_names_by_id.get(delta.topic_id)
            changed.update(() if name is None else (name,))
    return changed


def _moved(before: MetadataImage, delta: PartitionChanged) -> bool:
    topic = before.topic_by_id(delta.topic_id)
    known = None if topic is None else topic.partition(delta.index)
    return known is not None and known.replicas != delta.state.replicas
