"""The metadata of a cluster that is restored from an object store: what it wrote down of itself, and what is there.

- Topics keep ids, partitions and settings. Their first leader has an epoch above all that are known.
- Nobody is in sync with anything: whoever leads first looks into the store (`barnabas.remote.origin`).
- Topics that only the store knows are adopted; those that it does not have return empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from barnabas.cluster.deltas import Delta, RemoteDeletionBegun, RemoteDeletionEnded
from barnabas.cluster.features import TIERING_LEVEL, how_to_reach, level_of
from barnabas.cluster.image import MetadataImage, RemoteDeletion, TopicState
from barnabas.config.tiering_checks import NOT_WITHOUT_DELETING, is_disabled_without_deleting, is_tiered
from barnabas.controller.decision import Decided
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import Uuid

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from barnabas.cluster.image import (
    NO_CONTROLLER,
    NO_LEADER,
    BrokerState,
    MetadataImage,
    PartitionState,
    Resource,
    ResourceType,
    TopicState,
)
from barnabas.config.remote_origin import REMOTE_ORIGIN, RemoteOrigin
from barnabas.controller.brokers import PRODUCER_ID_BLOCK_SIZE
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from barnabas.common.types import Uuid


# -- The remote parts of tiered topics, as the controller sees them: when a topic may have one, and when it has to go 

NOT_OF_A_MIRROR = (
    "a mirror cannot be tiered: what its source cuts may be in the object store already. Leave remote.storage.enable "
    "out; it can be set once the topic is promoted"
)


def check_new_topic(image: MetadataImage, configs: Mapping[str, str]) -> None:
    """KafkaError if a new topic cannot be tiered now."""
    if is_tiered(configs) and level_of(image) < TIERING_LEVEL:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"remote.storage.enable=true needs {how_to_reach(TIERING_LEVEL)}"
        )


def check_change(image: MetadataImage, topic: TopicState, after: Mapping[str, str]) -> None:
    """KafkaError if tiering of a topic cannot begin, or end, by these settings."""
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
    """For the entry that deletes the topic, or ends its tiering."""
    if not is_tiered(image.topic_configs(topic.name)) or level_of(image) < TIERING_LEVEL:
        return []
    return [RemoteDeletionBegun(RemoteDeletion(topic.topic_id, topic.name, len(topic.partitions)))]


def deletion_by_settings(image: MetadataImage, topic: TopicState, after: Mapping[str, str]) -> list[Delta]:
    return [] if is_tiered(after) else deletion_of(image, topic)


def end_deletion(image: MetadataImage, topic_id: Uuid) -> Decided[None]:
    return ([RemoteDeletionEnded(topic_id)] if topic_id in image.remote_deletions else []), None



SKIPPED_BLOCKS = 1000
"""Of producer ids: some may have been given out after the metadata were written down."""

TIERED = "remote.storage.enable"


class StoredTopic(NamedTuple):
    """What the store has of a topic: by partition the latest leader epoch there."""

    name: str
    topic_id: Uuid
    latest_epochs: Mapping[int, int]


class Topics(NamedTuple):
    """What becomes of each."""

    restored: tuple[str, ...]
    adopted: tuple[str, ...]
    deleted: tuple[str, ...]
    """Their objects are marked as deleted, though the metadata that were written down still have them."""
    empty: tuple[str, ...]
    """The store has nothing of them."""
    unnamed: tuple[StoredTopic, ...]
    """Only the store has them, and another topic has their name: they stay where they are."""


def sort_topics(image: MetadataImage, stored: Sequence[StoredTopic], deleted: set[Uuid]) -> Topics:
    known = {topic.topic_id for topic in stored}
    ours = [topic for topic in image.topics.values() if topic.topic_id not in deleted]
    names = {topic.name for topic in ours}
    adopted, unnamed = _adoptable(
        [topic for topic in stored if image.topic_by_id(topic.topic_id) is None], names
    )
    return Topics(
        restored=tuple(sorted(topic.name for topic in ours if topic.topic_id in known)),
        adopted=tuple(sorted(adopted)),
        deleted=tuple(sorted(topic.name for topic in image.topics.values() if topic.topic_id in deleted)),
        empty=tuple(
            sorted(topic.name for topic in ours if topic.topic_id not in known and _has_content(topic.name))
        ),
        unnamed=tuple(unnamed),
    )


def _adoptable(found: Sequence[StoredTopic], taken: set[str]) -> tuple[set[str], list[StoredTopic]]:
    """The names that are free, each once, and the topics that get none."""
    names: set[str] = set()
    unnamed = []
    for topic in found:
        if topic.name in taken or topic.name in names:
            unnamed.append(topic)
        else:
            names.add(topic.name)
    return names, unnamed


def _has_content(topic: str) -> bool:
    """Offsets come back from what was written down, and open transactions are ended by the logs."""
    return topic not in (CONSUMER_OFFSETS, TRANSACTION_STATE)


def restored_image(
    image: MetadataImage,
    stored: Sequence[StoredTopic],
    deleted: set[Uuid],
    incarnation: int,
    brokers: Sequence[int] | None = None,
) -> MetadataImage:
    """`brokers`: those that will be there; None for those that were."""
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
    """One replica each: more are the operator's to ask for."""
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
    """Where they were; instead of brokers that will not be there, others in turn."""
    partition = topic.partition(index) or topic.partitions[0]
    before = [each for each in partition.replicas if each not in partition.adding_replicas]
    kept = [each for each in before if each in brokers]
    others = [brokers[(index + turn) % len(brokers)] for turn in range(len(brokers))]
    fill = [each for each in others if each not in kept]
    wanted = min(len(before), len(brokers))
    return tuple((kept + fill)[:wanted])


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
        if resource.type != ResourceType.TOPIC or resource.name in topics
    }
    for topic in topics.values():
        own = dict(image.topic_configs(topic.name))
        own.pop(REMOTE_ORIGIN, None)
        if topic.topic_id in stored or topic.name == CONSUMER_OFFSETS:
            own[REMOTE_ORIGIN] = str(RemoteOrigin(len(topic.partitions), incarnation=incarnation))
        if topic.topic_id in stored:
            own.setdefault(TIERED, "true")
        if own:
            configs[Resource(ResourceType.TOPIC, topic.name)] = own
        else:
            configs.pop(Resource(ResourceType.TOPIC, topic.name), None)
    return configs
