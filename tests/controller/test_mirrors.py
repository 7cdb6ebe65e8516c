"""Controller decisions about mirror topics."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from barnabas.cluster.deltas import FeatureFinalized, PartitionChanged, apply
from barnabas.cluster.difference import difference
from barnabas.cluster.features import METADATA_VERSION, MIRROR_LEVEL, TIERING_LEVEL
from barnabas.cluster.image import ConfigResourceType, MetadataImage, Resource
from barnabas.cluster.mirrors import MirrorTopic
from barnabas.cluster.snapshots import image_from_snapshot, snapshot_of
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.controller.configs import ConfigRules, alter_configs
from barnabas.controller.mirror_settling import Settled, settle_mirrors
from barnabas.controller.mirrors import (
    EPOCH_JUMP,
    MAX_TOPICS,
    MirrorChange,
    MirrorLink,
    PartitionChange,
    alter_mirrors,
)
from barnabas.controller.partitions import raised
from barnabas.controller.topics import delete_topics
from barnabas.protocol.messages.mirror import MirrorAction, MirrorState
from tests.support.builders.images import POLICY, after, cluster_of

LINK = MirrorLink("dr", "source")
CREATE = MirrorChange("t", MirrorAction.CREATE, "t", num_partitions=2)


def cluster(level: int = MIRROR_LEVEL) -> MetadataImage:
    return apply(cluster_of(2), [FeatureFinalized(METADATA_VERSION, level)])


def changed(image: MetadataImage, *changes: MirrorChange, link: MirrorLink = LINK) -> MetadataImage:
    decided = alter_mirrors(image, link, changes, POLICY)
    assert not [each for each in decided[1].values() if isinstance(each, KafkaError)], decided[1]
    return after(image, decided)


def refusal(image: MetadataImage, change: MirrorChange, link: MirrorLink = LINK) -> KafkaError:
    deltas, results = alter_mirrors(image, link, [change], POLICY)
    refused = results[change.name]
    assert isinstance(refused, KafkaError)
    assert not deltas
    return refused


def mirrored() -> MetadataImage:
    return changed(cluster(), CREATE)


def mirror(image: MetadataImage) -> MirrorTopic:
    found = image.mirror_of("t")
    assert found is not None
    return found


def settled(image: MetadataImage, *indexes: int, epoch: int | None = None, end: int = 7) -> MetadataImage:
    """The leaders of these partitions report completion."""
    topic = image.topics["t"]
    for index in indexes:
        state = topic.partitions[index]
        report = Settled(index, state.leader_epoch if epoch is None else epoch, end, 3, end + 1)
        broker = image.brokers[state.leader]
        decided = settle_mirrors(image, broker.id, broker.epoch, {topic.topic_id: [report]})
        image = after(image, decided)
    return image


def test_a_mirror_waits_for_the_level_that_every_broker_knows() -> None:
    refused = refusal(cluster(TIERING_LEVEL), CREATE)
    assert refused.code is ErrorCode.UNSUPPORTED_VERSION
    assert "barnabas.metadata.version=5" in refused.message


def test_snapshots_and_differences_have_the_mirrors() -> None:
    image = mirrored()
    assert image_from_snapshot(snapshot_of(image), image.offset) == image
    before = cluster()
    assert replace(apply(before, difference(before, image)), offset=image.offset) == image


def test_mirror_is_deleted_with_its_topic() -> None:
    image = mirrored()
    image_after = after(image, delete_topics(image, [image.topics["t"].topic_id]))
    assert not image_after.mirrors


@pytest.mark.parametrize(
    ("steps", "action"),
    [
        ((MirrorAction.PAUSE,), MirrorAction.SOURCE_UNAVAILABLE),
        ((MirrorAction.FAILOVER,), MirrorAction.PAUSE),
        ((MirrorAction.FAILOVER,), MirrorAction.ACTIVATE),
        ((MirrorAction.FAIL,), MirrorAction.PROMOTE),
        ((MirrorAction.SOURCE_UNAVAILABLE,), MirrorAction.PROMOTE),
    ],
)
def test_not_every_state_leads_to_every_other(steps: tuple[MirrorAction, ...], action: MirrorAction) -> None:
    image = mirrored()
    for step in steps:
        image = changed(image, MirrorChange("t", step))
    assert refusal(image, MirrorChange("t", action)).code is ErrorCode.INVALID_REQUEST


def test_saying_the_same_twice_changes_nothing() -> None:
    image = mirrored()
    for action in (MirrorAction.PAUSE, MirrorAction.ACTIVATE, MirrorAction.FAILOVER):
        image = changed(image, MirrorChange("t", action))
        assert alter_mirrors(image, LINK, [MirrorChange("t", action)], POLICY)[0] == []


def test_a_leader_epoch_is_raised_to_that_of_the_source_and_never_lowered() -> None:
    image = mirrored()
    higher = changed(image, MirrorChange("t", MirrorAction.NONE, partitions=[PartitionChange(1, 40)]))
    assert [state.leader_epoch for state in higher.topics["t"].partitions] == [0, 40]
    lower = MirrorChange("t", MirrorAction.NONE, partitions=[PartitionChange(1, 30)])
    assert alter_mirrors(higher, LINK, [lower], POLICY)[0] == []
    absurd = MirrorChange("t", MirrorAction.NONE, partitions=[PartitionChange(1, (1 << 31) - 1)])
    assert refusal(image, absurd).code is ErrorCode.INVALID_REQUEST
    half = MirrorChange("t", MirrorAction.NONE, partitions=[PartitionChange(0, 9), PartitionChange(7, 9)])
    assert refusal(image, half).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_another_link_does_not_touch_it() -> None:
    paused = MirrorChange("t", MirrorAction.PAUSE)
    assert refusal(mirrored(), paused, MirrorLink("other", "source")).code is ErrorCode.INVALID_REQUEST
    assert mirror(changed(mirrored(), paused, link=MirrorLink(""))).state == MirrorState.PAUSED


def test_a_promotion_jumps_over_the_epochs_that_the_source_may_still_take() -> None:
    image = changed(mirrored(), MirrorChange("t", MirrorAction.PROMOTE))
    assert [state.leader_epoch for state in image.topics["t"].partitions] == [EPOCH_JUMP] * 2
    assert {part.since_epoch for part in mirror(image).partitions} == {EPOCH_JUMP}


def test_a_topic_is_stopped_when_the_leaders_of_all_partitions_have_done_their_part() -> None:
    image = changed(mirrored(), MirrorChange("t", MirrorAction.PROMOTE))
    image = settled(image, 0)
    assert mirror(image).state == MirrorState.PROMOTING
    image = settled(image, 1)
    assert mirror(image).state == MirrorState.STOPPED
    assert [(part.promoted_at, part.own_from) for part in mirror(image).partitions] == [(7, 8)] * 2


def test_reports_of_an_earlier_leader_are_ignored() -> None:
    image = settled(changed(mirrored(), MirrorChange("t", MirrorAction.PROMOTE)), 0)
    topic = image.topics["t"]
    state = raised(topic.partitions[0], EPOCH_JUMP + 1)
    image = apply(image, [PartitionChanged(topic.topic_id, 0, state)])
    image = settled(image, 1)
    assert mirror(image).state == MirrorState.PROMOTING
    image = settled(image, 0, epoch=EPOCH_JUMP, end=9)
    assert mirror(image).partition(0).promoted_at == 7
    image = settled(image, 0, end=9)
    assert mirror(image).state == MirrorState.STOPPED
    assert mirror(image).partition(0).promoted_at == 9


def test_acknowledgement_of_a_non_member_has_no_effect() -> None:
    image = changed(mirrored(), MirrorChange("t", MirrorAction.PROMOTE))
    with pytest.raises(KafkaError, match="no registration with epoch 99"):
        settle_mirrors(image, 1, 99, {})


def test_a_mirror_is_not_tiered_by_settings() -> None:
    image, resource = mirrored(), Resource(ConfigResourceType.TOPIC, "t")
    rules = ConfigRules(lambda resource, values: None, lambda resource, name: None)
    wanted = {resource: {"remote.storage.enable": "true"}}
    refused = alter_configs(image, wanted, rules, POLICY)[1][resource]
    assert isinstance(refused, KafkaError)
    assert "a mirror cannot be tiered" in refused.message
    promoted = settled(changed(image, MirrorChange("t", MirrorAction.FAILOVER)), 0, 1)
    assert alter_configs(promoted, wanted, rules, POLICY)[1][resource] is None


def test_many_topics_are_created_and_promoted_in_one_entry_each() -> None:
    names = [f"t{number}" for number in range(MAX_TOPICS)]
    image = changed(cluster(), *(replace_name(CREATE, name) for name in names))
    assert len(image.mirrors) == MAX_TOPICS
    load = [state.leader for topic in image.topics.values() for state in topic.partitions]
    assert load.count(1) == load.count(2)
    promoted = changed(image, *(MirrorChange(name, MirrorAction.FAILOVER) for name in names))
    assert {each.state for each in promoted.mirrors.values()} == {MirrorState.PROMOTING}
    one_more = [MirrorChange(f"x{number}", MirrorAction.PAUSE) for number in range(MAX_TOPICS + 1)]
    deltas, results = alter_mirrors(image, LINK, one_more, POLICY)
    assert not deltas
    assert all(isinstance(each, KafkaError) for each in results.values())


def replace_name(change: MirrorChange, name: str) -> MirrorChange:
    return MirrorChange(name, change.action, name, num_partitions=change.num_partitions)
