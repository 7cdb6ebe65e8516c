"""The remote parts of tiered topics, as the controller sees them: when a topic may have one, and when it has to go.

A topic that is deleted, or no longer tiered, leaves objects in a store that may not answer now. So the entry that says
so also says that they have to go. Whoever is the controller deletes them (broker/tiering/deletions), and another entry
says when that is done.
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
