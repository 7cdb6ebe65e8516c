"""Preferred leader election, replicas lost with a disk, and unclean elections."""

from __future__ import annotations

from barnabas.cluster.deltas import Delta
from barnabas.cluster.image import MetadataImage, PartitionState
from barnabas.controller.brokers import Registration, fence, lose_replicas, register, unfence
from barnabas.controller.decision import ControllerPolicy
from barnabas.controller.elections import balance_leaders, elect_leaders, uncleanly_led
from barnabas.controller.partitions import Election
from tests.support.builders.images import POLICY, after, cluster_of, with_topic


def test_leadership_returns_to_the_preferred_replica_in_sync() -> None:
    image = with_topic(
        cluster_of(3),
        "orders",
        PartitionState((1, 2, 3), (2, 3, 1), 2),
        PartitionState((1, 2, 3), (2, 3), 2),
        PartitionState((3, 1, 2), (1, 2, 3), 3),
    )
    decided = balance_leaders(image, POLICY)
    assert decided[1] == 1
    partitions = after(image, decided).topics["orders"].partitions
    assert [partition.leader for partition in partitions] == [1, 2, 3]


def test_nothing_is_balanced_towards_a_broker_that_is_down() -> None:
    image = with_topic(cluster_of(2), "orders", PartitionState((1, 2), (1, 2), 1))
    image = after(image, fence(image, 1, POLICY))
    assert balance_leaders(image, POLICY)[1] == 0


def test_a_failed_disk_takes_its_replicas_out_of_the_isr_and_no_others() -> None:
    lost, kept = PartitionState((1, 2), (1, 2), 1), PartitionState((1, 2), (1, 2), 1)
    image = with_topic(cluster_of(2), "orders", lost, kept)
    topic = image.topics["orders"]
    partitions = (
        after(image, lose_replicas(image, 1, {(topic.topic_id, 0)}, POLICY)).topics["orders"].partitions
    )
    assert (partitions[0].leader, partitions[0].isr) == (2, (2,))
    assert partitions[1] == kept


def test_a_replica_lost_with_its_disk_is_not_eligible_although_too_few_are_left() -> None:
    policy = ControllerPolicy(min_insync_replicas=2)
    image = with_topic(cluster_of(2), "orders", PartitionState((1, 2), (1, 2), 1))
    topic_id = image.topics["orders"].topic_id
    image = after(image, lose_replicas(image, 1, {(topic_id, 0)}, policy))
    assert image.topics["orders"].partitions[0].elr == ()


def told(image: MetadataImage, decided: tuple[list[Delta], object]) -> list[tuple[str, int]]:
    return [
        (str(partition), state.leader)
        for partition, state in uncleanly_led(after(image, decided), decided[0])
    ]


def test_election_of_an_out_of_sync_replica_is_reported() -> None:
    policy = ControllerPolicy(unclean_leader_election=True)
    image = with_topic(cluster_of(2), "orders", PartitionState((1, 2), (1,), 1))
    assert told(image, fence(image, 1, policy)) == [("orders-0", 2)]
    clean = fence(image, 1, POLICY)
    assert told(image, clean) == []
    image_after = after(image, clean)
    assert told(image_after, unfence(image_after, 1, POLICY)) == []


def test_leader_that_lost_records_and_was_reelected_in_one_step_is_reported() -> None:
    """The machine was restarted after a power failure before it was detected: no other replica is in sync."""
    image = with_topic(cluster_of(2), "orders", PartitionState((1, 2), (1,), 1))
    assert told(image, register(image, Registration(1, clean=False), POLICY)) == [("orders-0", 1)]
    assert told(image, register(image, Registration(1, clean=True), POLICY)) == []
    image_after = after(image, fence(image, 1, POLICY))
    assert told(image_after, register(image_after, Registration(1, clean=False), POLICY)) == [("orders-0", 1)]


def test_the_only_replica_that_comes_back_is_no_election() -> None:
    image = with_topic(cluster_of(2), "orders", PartitionState((1,), (1,), 1))
    assert told(image, register(image, Registration(1, clean=False), POLICY)) == []


def test_requested_elections_and_lost_disks_are_reported() -> None:
    image = with_topic(cluster_of(2), "orders", PartitionState((1, 2), (1,), 1))
    image_after = after(image, fence(image, 1, POLICY))
    result = elect_leaders(image_after, None, Election.UNCLEAN, POLICY)
    assert told(image_after, result) == [("orders-0", 2)]
    partitions = {(image.topics["orders"].topic_id, 0)}
    lost = lose_replicas(image, 1, partitions, ControllerPolicy(unclean_leader_election=True))
    assert told(image, lost) == [("orders-0", 2)]
    assert told(image, lose_replicas(image, 1, partitions, POLICY)) == []
