import msgspec
from hypothesis import given

from barnabas.cluster.deltas import (
    ConfigsChanged,
    Delta,
    PartitionChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
    apply,
)
from barnabas.cluster.image import EMPTY_IMAGE, ConfigResourceType, PartitionState, Resource, TopicState
from barnabas.cluster.snapshots import image_from_snapshot, snapshot_of
from barnabas.common.types import new_uuid
from tests.cluster.histories import histories, replay

ONE = PartitionState((1,), (1,), 1)


def topic(name: str = "orders", partitions: int = 1) -> TopicState:
    return TopicState(name, new_uuid(), (ONE,) * partitions)


def test_a_created_topic_is_found_by_name_and_by_id() -> None:
    orders = topic()
    image = apply(EMPTY_IMAGE, [TopicCreated(orders)])
    assert image.topics["orders"] is orders
    assert image.topic_by_id(orders.topic_id) is orders
    assert image.offset == 1


def test_applying_a_delta_leaves_the_old_image_as_it_was() -> None:
    before = apply(EMPTY_IMAGE, [TopicCreated(topic())])
    after = apply(before, [TopicDeleted(before.topics["orders"].topic_id)])
    assert "orders" in before.topics
    assert "orders" not in after.topics


def test_unchanged_parts_are_shared_between_images() -> None:
    before = apply(EMPTY_IMAGE, [TopicCreated(topic())])
    after = apply(before, [ConfigsChanged(ConfigResourceType.BROKER, "1", {"log.retention.ms": "1"})])
    assert after.topics is before.topics


def test_a_deleted_topic_takes_its_configs_along() -> None:
    orders = topic()
    created: list[Delta] = [
        TopicCreated(orders),
        ConfigsChanged(ConfigResourceType.TOPIC, "orders", {"retention.ms": "1"}),
    ]
    image = apply(apply(EMPTY_IMAGE, created), [TopicDeleted(orders.topic_id)])
    assert image.configs == {}
    assert image.topic_by_id(orders.topic_id) is None


def test_a_topic_deleted_and_created_again_in_one_entry_is_the_new_one() -> None:
    old, new = topic(), topic()
    image = apply(EMPTY_IMAGE, [TopicCreated(old), TopicDeleted(old.topic_id), TopicCreated(new)])
    assert image.topics["orders"] == new
    assert list(image.topic_names_by_id) == [new.topic_id]


def test_config_set_to_empty_is_removed_with_its_empty_resource() -> None:
    image = apply(EMPTY_IMAGE, [ConfigsChanged(ConfigResourceType.TOPIC, "t", {"a": "1", "b": "2"})])
    assert image.configs[Resource(ConfigResourceType.TOPIC, "t")] == {"a": "1", "b": "2"}
    image = apply(image, [ConfigsChanged(ConfigResourceType.TOPIC, "t", {"a": None})])
    assert image.topic_configs("t") == {"b": "2"}
    assert apply(image, [ConfigsChanged(ConfigResourceType.TOPIC, "t", {"b": None})]).configs == {}


def test_several_changes_of_one_topic_in_one_entry_all_count() -> None:
    orders = topic(partitions=2)
    second = PartitionState((1,), (1,), 1, leader_epoch=7)
    third = PartitionState((1,), (1,), 1, leader_epoch=8)
    image = apply(
        EMPTY_IMAGE,
        [
            TopicCreated(orders),
            PartitionChanged(orders.topic_id, 1, second),
            PartitionsAdded(orders.topic_id, (ONE,)),
            PartitionChanged(orders.topic_id, 2, third),
        ],
    )
    assert image.topics["orders"].partitions == (ONE, second, third)


def test_a_negative_partition_is_no_partition() -> None:
    assert topic(partitions=3).partition(-1) is None


@given(histories())
def test_a_snapshot_leads_to_the_same_image_as_the_history(entries: list[list[Delta]]) -> None:
    image = replay(entries)
    assert image_from_snapshot(snapshot_of(image), image.offset) == image


@given(histories())
def test_deltas_survive_being_written_as_json(entries: list[list[Delta]]) -> None:
    encoded = msgspec.json.encode(entries)
    assert msgspec.json.decode(encoded, type=list[list[Delta]]) == entries


@given(histories())
def test_topics_and_their_ids_always_point_at_each_other(entries: list[list[Delta]]) -> None:
    image = replay(entries)
    assert {state.topic_id: name for name, state in image.topics.items()} == image.topic_names_by_id
