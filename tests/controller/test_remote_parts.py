"""Enabling tiered storage, and tracking of its objects after deletion."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from barnabas.cluster.deltas import ConfigsChanged, FeatureFinalized, RemoteDeletionBegun, apply
from barnabas.cluster.difference import difference
from barnabas.cluster.features import METADATA_VERSION, SECURITY_LEVEL, TIERING_LEVEL
from barnabas.cluster.image import ConfigResourceType, MetadataImage, PartitionState, RemoteDeletion, Resource
from barnabas.cluster.snapshots import image_from_snapshot as image_from
from barnabas.cluster.snapshots import snapshot_of
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.tiering_checks import NOT_WITHOUT_DELETING
from barnabas.controller.configs import ConfigRules, alter_configs
from barnabas.controller.restoring import end_deletion
from barnabas.controller.topics import NewTopic, create_topics, delete_topics
from tests.support.builders.images import POLICY, after, cluster_of, with_topic

TOPIC = Resource(ConfigResourceType.TOPIC, "t")
RULES = ConfigRules(lambda resource, values: None, lambda resource, name: None)
ON, OFF = {"remote.storage.enable": "true"}, {"remote.storage.enable": "false"}
OFF_AND_DELETE = {**OFF, "remote.log.delete.on.disable": "true"}


def cluster(level: int = TIERING_LEVEL, configs: Mapping[str, str] = ON) -> MetadataImage:
    """With a topic of two partitions."""
    state = PartitionState((1,), (1,), 1)
    image = with_topic(apply(cluster_of(1), [FeatureFinalized(METADATA_VERSION, level)]), "t", state, state)
    return apply(image, [ConfigsChanged(ConfigResourceType.TOPIC, "t", dict(configs))])


def alter(image: MetadataImage, configs: Mapping[str, str]) -> tuple[MetadataImage, KafkaError | None]:
    decided = alter_configs(image, {TOPIC: configs}, RULES, POLICY)
    return after(image, decided), decided[1][TOPIC]


def message(refusal: KafkaError | None) -> str:
    return "" if refusal is None else refusal.message


def test_topic_is_not_tiered_until_every_broker_supports_it() -> None:
    old = cluster(SECURITY_LEVEL, OFF)
    wanted = [NewTopic("new", 1, 1, configs=ON)]
    refused = create_topics(old, wanted, POLICY)[1]["new"]
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.INVALID_CONFIG
    assert (
        "remote.storage.enable=true needs barnabas.metadata.version=4: upgrade all brokers" in refused.message
    )
    _, refusal = alter(old, ON)
    assert message(refusal) == refused.message
    assert not isinstance(create_topics(cluster(configs=OFF), wanted, POLICY)[1]["new"], KafkaError)
    assert alter(cluster(configs=OFF), ON)[1] is None


def test_deleted_topic_is_remembered_until_its_objects_are_deleted() -> None:
    image = cluster()
    topic = image.topics["t"]
    image = after(image, delete_topics(image, [topic.topic_id]))
    assert image.topics == {}
    assert image.remote_deletions == {topic.topic_id: RemoteDeletion(topic.topic_id, "t", 2)}
    assert image_from(snapshot_of(image), image.offset) == image
    ended = after(image, end_deletion(image, topic.topic_id))
    assert ended.remote_deletions == {}
    assert end_deletion(ended, topic.topic_id)[0] == []
    assert apply(image, difference(image, ended)).remote_deletions == {}
    assert difference(ended, image)[-1] == RemoteDeletionBegun(RemoteDeletion(topic.topic_id, "t", 2))


@pytest.mark.parametrize("image", [cluster(configs=OFF), cluster(SECURITY_LEVEL)])
def test_a_topic_without_a_remote_part_leaves_nothing_to_delete(image: MetadataImage) -> None:
    topic = image.topics["t"]
    assert after(image, delete_topics(image, [topic.topic_id])).remote_deletions == {}


def test_ending_tiering_requires_consent_to_delete_the_objects() -> None:
    image = cluster()
    for configs in (OFF, {}):
        unchanged, refusal = alter(image, configs)
        assert message(refusal) == NOT_WITHOUT_DELETING
        assert unchanged is image
    disabled, refusal = alter(image, OFF_AND_DELETE)
    assert refusal is None
    assert list(disabled.remote_deletions) == [image.topics["t"].topic_id]


def test_tiering_starts_again_only_after_the_old_objects_are_deleted() -> None:
    image, _ = alter(cluster(), OFF_AND_DELETE)
    _, refusal = alter(image, ON)
    assert "is still being deleted" in message(refusal)
    image = after(image, end_deletion(image, image.topics["t"].topic_id))
    assert alter(image, ON)[1] is None
