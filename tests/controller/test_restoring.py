"""The metadata of a restored cluster."""

from msgspec.structs import replace

from barnabas.cluster.deltas import ConfigsChanged, apply
from barnabas.cluster.image import NO_LEADER, ConfigResourceType, MetadataImage, PartitionState
from barnabas.cluster.snapshots import image_from_snapshot, snapshot_of
from barnabas.config.remote_origin import REMOTE_ORIGIN, origin_of
from barnabas.controller.brokers import Registration, register
from barnabas.controller.restoring import StoredTopic, restored_image, sort_topics
from barnabas.security.authz.acls import AclBinding
from tests.support.builders.images import POLICY, after, cluster_of, with_topic

LED = PartitionState((1, 2, 3), (1, 2, 3), 1, leader_epoch=7)
NEW_ID = bytes([9] * 16)


def image_of_three() -> MetadataImage:
    image = with_topic(cluster_of(3), "orders", LED, LED)
    image = with_topic(image, "tables", LED)
    image = with_topic(image, "__consumer_offsets", LED, LED)
    image = apply(
        image, [ConfigsChanged(ConfigResourceType.TOPIC, "orders", {"remote.storage.enable": "true"})]
    )
    return replace(image, cluster_id="the-id", next_producer_id=5000)


def stored(image: MetadataImage, *more: StoredTopic) -> list[StoredTopic]:
    return [StoredTopic("orders", image.topics["orders"].topic_id, {0: 7, 1: 12}), *more]


def test_topics_are_sorted_by_outcome() -> None:
    image = image_of_three()
    adopted = StoredTopic("found", NEW_ID, {0: 3})
    older = StoredTopic("tables", bytes([8] * 16), {0: 3})
    topics = sort_topics(image, stored(image, adopted, older), set())
    assert (topics.restored, topics.adopted) == (("orders",), ("found",))
    assert (topics.empty, topics.unnamed, topics.deleted) == (("tables",), (older,), ())
    image_after = sort_topics(image, [], {image.topics["orders"].topic_id})
    assert (image_after.deleted, image_after.restored, image_after.empty) == (("orders",), (), ("tables",))


def test_ids_stay_epochs_increase_and_no_replica_is_in_sync() -> None:
    image = image_of_three()
    new = restored_image(image, stored(image), set(), 4)
    assert new.topics["orders"].topic_id == image.topics["orders"].topic_id
    assert [each.leader_epoch for each in new.topics["orders"].partitions] == [8, 13]
    for _, _, partition in new.partitions():
        assert (partition.leader, partition.isr, partition.replicas) == (NO_LEADER, (), (1, 2, 3))
    assert new.next_producer_id == 5000 + 1_000_000
    assert (new.incarnation, new.controller_epoch) == (4, image.controller_epoch + 1)
    assert all(broker.fenced for broker in new.brokers.values())
    origin = origin_of(new.topic_configs("orders"))
    assert origin is not None
    assert (origin.incarnation, origin.partitions) == (4, 2)
    assert REMOTE_ORIGIN in new.topic_configs("__consumer_offsets")
    assert REMOTE_ORIGIN not in new.topic_configs("tables")


def test_it_can_be_written_down_and_read_again() -> None:
    image = replace(image_of_three(), acls=frozenset[AclBinding]())
    new = restored_image(image, stored(image), set(), 4)
    assert image_from_snapshot(list(snapshot_of(new)), new.offset) == new


def test_remaining_brokers_take_over_all_partitions() -> None:
    image = image_of_three()
    alone = restored_image(image, stored(image), set(), 1, brokers=(5,))
    assert {each.replicas for _, _, each in alone.partitions()} == {(5,)}
    two = restored_image(image, stored(image), set(), 1, brokers=(2, 9))
    assert {each.replicas for _, _, each in two.partitions()} == {(2, 9)}


def test_the_first_broker_that_comes_leads_even_if_its_disk_is_new() -> None:
    image = restored_image(image_of_three(), stored(image_of_three()), set(), 1)
    image = after(image, register(image, Registration(2, host="b", clean=False, epoch=1), POLICY))
    states = [each for _, _, each in image.partitions()]
    assert {(each.leader, each.isr) for each in states} == {(2, (2,))}
    deltas, _ = register(image, Registration(3, host="c", clean=False, epoch=2), POLICY)
    image = apply(image, deltas)
    assert {(each.leader, each.isr) for _, _, each in image.partitions()} == {(2, (2,))}


def test_an_adopted_topic_is_tiered() -> None:
    image = image_of_three()
    new = restored_image(image, stored(image, StoredTopic("found", NEW_ID, {0: 3, 2: 5})), set(), 1)
    assert [each.leader_epoch for each in new.topics["found"].partitions] == [4, 0, 6]
    assert new.topic_configs("found")["remote.storage.enable"] == "true"
