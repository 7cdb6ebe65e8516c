"""The metadata of a cluster restored from an object store: its metadata snapshot, merged with the stored
topics.

- Topics keep ids, partitions and settings. Their first leader has an epoch above all known ones.
- No replica is in sync: the first leader reads the store (`barnabas.remote.origin`).
- Topics that only the store has are adopted; those that it does not have return empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from barnabas.cluster.deltas import Delta, RemoteDeletionBegun, RemoteDeletionEnded
from barnabas.cluster.features import TIERING_LEVEL, how_to_reach, level_of
from barnabas.cluster.image import (
    NO_CONTROLLER,
    NO_LEADER,
    BrokerState,
    ConfigResourceType,
    MetadataImage,
    PartitionState,
    RemoteDeletion,
    Resource,
    TopicState,
)
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import Uuid
from barnabas.config.remote_origin import REMOTE_ORIGIN, RemoteOrigin
from barnabas.config.tiering_checks import NOT_WITHOUT_DELETING, is_disabled_without_deleting, is_tiered
from barnabas.controller.brokers import PRODUCER_ID_BLOCK_SIZE
from barnabas.controller.decision import Decided
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE

# -- remote parts of tiered topics: when a topic may have one, and when it must be deleted ---------

NOT_OF_A_MIRROR = (
    "a mirror cannot be tiered: what its source cuts may be in the object store already. Leave remote.storage.enable "
    "out; it can be set once the topic is promoted"
)


def check_new_topic(image: MetadataImage, configs: Mapping[str, str]) -> None:
    """Raise KafkaError if a new topic cannot be tiered now."""
    if is_tiered(configs) and level_of(image) < TIERING_LEVEL:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"remote.storage.enable=true needs {how_to_reach(TIERING_LEVEL)}"
        )


def check_change(image: MetadataImage, topic: TopicState, after: Mapping[str, str]) -> None:
    """Raise KafkaError if these configs cannot enable, or disable, tiering of the topic."""
    before = image.topic_configs(topic.name)
    if is_disabled_without_deleting(before, after):
        raise KafkaError(ErrorCode.INVALID_CONFIG, NOT_WITHOUT_DELETING)
    if is_tiered(before):
        return
    check_new_topic(image, after)
    mirror = image.mirrors.get(topic.topic_id)
    if is_tiered(after) and mirror is not None and not mirror.is_own:
        raise KafkaError(ErrorCode.INVALID_CONFIG, NOT_OF_A_MIRROR)
    if is_tiered(after) and topic.topic_id in image.remote_deletions:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"what topic {topic.name} had in the object store before is still being deleted: try again in a quarter of "
            "an hour. If a snapshot keeps it, delete that first.",
        )


def deletion_of(image: MetadataImage, topic: TopicState) -> list[Delta]:
    """Deltas for the entry that deletes the topic, or disables its tiering."""
    if not is_tiered(image.topic_configs(topic.name)) or level_of(image) < TIERING_LEVEL:
        return []
    return [RemoteDeletionBegun(RemoteDeletion(topic.topic_id, topic.name, len(topic.partitions)))]


def deletion_by_settings(image: MetadataImage, topic: TopicState, after: Mapping[str, str]) -> list[Delta]:
    return [] if is_tiered(after) else deletion_of(image, topic)


def end_deletion(image: MetadataImage, topic_id: Uuid) -> Decided[None]:
    return ([RemoteDeletionEnded(topic_id)] if topic_id in image.remote_deletions else []), None


SKIPPED_BLOCKS = 1000
"""Blocks of producer ids to skip: some may have been allocated after the metadata snapshot."""

TIERED = "remote.storage.enable"


class StoredTopic(NamedTuple):
    """A topic in the store: the latest leader epoch by partition."""

    name: str
    topic_id: Uuid
    latest_epochs: Mapping[int, int]


class RestoredTopics(NamedTuple):
    """Topics by outcome."""

    restored: tuple[str, ...]
    adopted: tuple[str, ...]
    deleted: tuple[str, ...]
    """Their objects are marked as deleted, though the metadata snapshot still has them."""
    empty: tuple[str, ...]
    """The store has nothing of them."""
    unnamed: tuple[StoredTopic, ...]
    """Only the store has them, and another topic has their name: they are left alone."""


def sort_topics(image: MetadataImage, stored: Sequence[StoredTopic], deleted: set[Uuid]) -> RestoredTopics:
    known = {topic.topic_id for topic in stored}
    restored = [topic for topic in image.topics.values() if topic.topic_id not in deleted]
    names = {topic.name for topic in restored}
    adopted, unnamed = _adoptable(
        [topic for topic in stored if image.topic_by_id(topic.topic_id) is None], names
    )
    return RestoredTopics(
        restored=tuple(sorted(topic.name for topic in restored if topic.topic_id in known)),
        adopted=tuple(sorted(adopted)),
        deleted=tuple(sorted(topic.name for topic in image.topics.values() if topic.topic_id in deleted)),
        empty=tuple(
            sorted(
                topic.name for topic in restored if topic.topic_id not in known and _has_content(topic.name)
            )
        ),
        unnamed=tuple(unnamed),
    )


def _adoptable(found: Sequence[StoredTopic], taken: set[str]) -> tuple[set[str], list[StoredTopic]]:
    """The free names, each once, and the topics that get none."""
    names: set[str] = set()
    unnamed = []
    for topic in found:
        if topic.name in taken or topic.name in names:
            unnamed.append(topic)
        else:
            names.add(topic.name)
    return names, unnamed


def _has_content(topic: str) -> bool:
    """False for topics whose data is restored elsewhere: offsets come from the snapshot, and logs end open
    transactions.
    """
    return topic not in (CONSUMER_OFFSETS, TRANSACTION_STATE)


def restored_image(
    image: MetadataImage,
    stored: Sequence[StoredTopic],
    deleted: set[Uuid],
    incarnation: int,
    brokers: Sequence[int] | None = None,
) -> MetadataImage:
    """`brokers`: those of the restored cluster; None for those of the snapshot."""
    by_id = {topic.topic_id: topic for topic in stored}
    ids = tuple(brokers) if brokers is not None else tuple(sorted(image.brokers))
    topics = {
        topic.name: _restored(topic, by_id.get(topic.topic_id), ids)
        for topic in image.topics.values()
        if topic.topic_id not in deleted
    }
    for name in sort_topics(image, stored, deleted).adopted:
        found = next(each for each in stored if each.name == name)
        topics[name] = _adopted(found, ids)
    return msgspec.structs.replace(
        image,
        offset=image.offset + 1,
        controller_id=NO_CONTROLLER,
        controller_epoch=image.controller_epoch + 1,
        brokers={each: _fenced(image, each) for each in ids},
        topics=topics,
        topic_names_by_id={topic.topic_id: topic.name for topic in topics.values()},
        configs=_configs(image, topics, by_id, incarnation),
        next_producer_id=image.next_producer_id + SKIPPED_BLOCKS * PRODUCER_ID_BLOCK_SIZE,
        incarnation=incarnation,
    )


def _restored(topic: TopicState, stored: StoredTopic | None, brokers: Sequence[int]) -> TopicState:
    epochs = stored.latest_epochs if stored is not None else {}
    count = max(len(topic.partitions), max(epochs, default=-1) + 1)
    partitions = [
        _partition(_replicas(topic, index, brokers), max(_epoch(topic, index), epochs.get(index, -1)))
        for index in range(count)
    ]
    return TopicState(topic.name, topic.topic_id, tuple(partitions))


def _adopted(stored: StoredTopic, brokers: Sequence[int]) -> TopicState:
    """One replica each: operators can add more."""
    partitions = [
        _partition((brokers[index % len(brokers)],), stored.latest_epochs.get(index, -1))
        for index in range(max(stored.latest_epochs) + 1)
    ]
    return TopicState(stored.name, stored.topic_id, tuple(partitions))


def _partition(replicas: tuple[int, ...], latest_epoch: int) -> PartitionState:
    return PartitionState(replicas, (), NO_LEADER, leader_epoch=latest_epoch + 1)


def _epoch(topic: TopicState, index: int) -> int:
    partition = topic.partition(index)
    return partition.leader_epoch if partition is not None else -1


def _replicas(topic: TopicState, index: int, brokers: Sequence[int]) -> tuple[int, ...]:
    """The previous replicas; brokers that no longer exist are replaced by others in turn."""
    partition = topic.partition(index) or topic.partitions[0]
    before = [each for each in partition.replicas if each not in partition.adding_replicas]
    kept = [each for each in before if each in brokers]
    others = [brokers[(index + turn) % len(brokers)] for turn in range(len(brokers))]
    fill = [each for each in others if each not in kept]
    count = min(len(before), len(brokers))
    return tuple((kept + fill)[:count])


def _fenced(image: MetadataImage, broker_id: int) -> BrokerState:
    """Until it registers, which it does with a higher epoch."""
    known = image.brokers.get(broker_id) or BrokerState(broker_id, 0)
    return msgspec.structs.replace(known, epoch=0, fenced=True, shutting_down=False)


def _configs(
    image: MetadataImage,
    topics: Mapping[str, TopicState],
    stored: Mapping[Uuid, StoredTopic],
    incarnation: int,
) -> dict[Resource, Mapping[str, str]]:
    configs = {
        resource: values
        for resource, values in image.configs.items()
        if resource.type != ConfigResourceType.TOPIC or resource.name in topics
    }
    for topic in topics.values():
        own = dict(image.topic_configs(topic.name))
        own.pop(REMOTE_ORIGIN, None)
        if topic.topic_id in stored or topic.name == CONSUMER_OFFSETS:
            own[REMOTE_ORIGIN] = str(RemoteOrigin(len(topic.partitions), incarnation=incarnation))
        if topic.topic_id in stored:
            own.setdefault(TIERED, "true")
        if own:
            configs[Resource(ConfigResourceType.TOPIC, topic.name)] = own
        else:
            configs.pop(Resource(ConfigResourceType.TOPIC, topic.name), None)
    return configs
