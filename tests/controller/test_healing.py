"""Automatic replica moves: from brokers that stay offline, and to new brokers."""

from __future__ import annotations

from barnabas.cluster.image import MetadataImage, PartitionState
from barnabas.common.types import TopicPartition
from barnabas.controller.brokers import fence, unfence
from barnabas.controller.healing import Healing, HealingSettings, Targets
from barnabas.controller.reassignment import alter_reassignments
from tests.support.builders.images import POLICY, after, cluster_of, with_topic

REPLACE = HealingSettings(replace_after=60.0, balances=False, quiet=0.0, at_once=10)
BALANCE = HealingSettings(replace_after=None, balances=True, quiet=30.0, at_once=2)


def on(*replicas: int) -> PartitionState:
    return PartitionState(replicas, replicas, replicas[0])


def without(image: MetadataImage, *brokers: int) -> MetadataImage:
    for broker in brokers:
        image = after(image, fence(image, broker, POLICY))
    return image


def begun(image: MetadataImage, targets: Targets) -> MetadataImage:
    decided = alter_reassignments(image, list(targets.items()), POLICY)
    assert set(decided[1]) <= {None}
    return after(image, decided)


def tp(index: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, index)


def test_a_broker_that_stays_away_loses_its_replicas_to_those_that_hold_few() -> None:
    image = without(with_topic(cluster_of(4), "t", on(1, 2), on(2, 3), on(1, 3)), 2)
    healing = Healing()
    assert healing.review(image, REPLACE, 0.0) == {}
    assert healing.review(image, REPLACE, 59.0) == {}
    targets = healing.review(image, REPLACE, 60.0)
    assert set(targets) == {tp(0), tp(1)}
    assert all(target is not None and 2 not in target and 4 in target for target in targets.values())


def test_time_counts_from_the_last_run() -> None:
    image = with_topic(cluster_of(4), "t", on(1, 2))
    image_after = without(image, 2)
    healing = Healing()
    healing.review(image_after, REPLACE, 0.0)
    healing.review(image, REPLACE, 50.0)
    healing.review(image_after, REPLACE, 55.0)
    assert healing.review(image_after, REPLACE, 100.0) == {}
    assert set(healing.review(image_after, REPLACE, 115.0)) == {tp(0)}


def test_nothing_is_replaced_while_more_than_a_third_of_the_brokers_is_away() -> None:
    image = without(with_topic(cluster_of(5), "t", on(1, 2), on(2, 3)), 2, 3)
    healing = Healing()
    healing.review(image, REPLACE, 0.0)
    assert healing.review(image, REPLACE, 1000.0) == {}


def test_only_so_many_partitions_move_at_once() -> None:
    image = without(with_topic(cluster_of(4), "t", *[on(1, 2)] * 25), 2)
    healing = Healing()
    healing.review(image, REPLACE, 0.0)
    first = healing.review(image, REPLACE, 60.0)
    assert len(first) == 10
    image = begun(image, first)
    assert healing.review(image, REPLACE, 61.0) == {}


def test_moves_in_progress_are_cancelled_when_the_broker_returns() -> None:
    image = without(with_topic(cluster_of(4), "t", on(1, 2), on(1, 3)), 2)
    healing = Healing()
    healing.review(image, REPLACE, 0.0)
    targets = healing.review(image, REPLACE, 60.0)
    image = begun(image, targets)
    back = after(image, unfence(image, 2, POLICY))
    called_off = healing.review(back, REPLACE, 61.0)
    assert called_off == {tp(0): None}
    state = begun(back, called_off).partition("t", 0)
    assert state is not None
    assert (state.replicas, state.being_reassigned) == ((1, 2), False)


def test_a_move_of_the_operator_is_never_called_off() -> None:
    image = without(with_topic(cluster_of(4), "t", on(1, 2)), 2)
    healing = Healing()
    healing.review(image, REPLACE, 0.0)
    image = begun(image, {tp(0): (1, 4)})
    image = after(image, unfence(image, 2, POLICY))
    assert healing.review(image, REPLACE, 61.0) == {}


def test_partition_without_an_alternative_owner_stays() -> None:
    image = without(with_topic(cluster_of(3), "t", on(1, 2, 3), on(2)), 2)
    healing = Healing()
    healing.review(image, REPLACE, 0.0)
    assert healing.review(image, REPLACE, 60.0) == {}


def test_a_broker_that_has_come_is_given_replicas_after_a_quiet_time() -> None:
    image = with_topic(cluster_of(2), "t", *[on(1, 2)] * 6)
    healing = Healing()
    healing.review(image, BALANCE, 0.0)
    grown = with_topic(cluster_of(3), "t", *[on(1, 2)] * 6)
    assert healing.review(grown, BALANCE, 10.0) == {}
    assert healing.review(grown, BALANCE, 39.0) == {}
    targets = healing.review(grown, BALANCE, 40.0)
    assert len(targets) == BALANCE.at_once
    assert all(target is not None and 3 in target for target in targets.values())
    assert healing.review(begun(grown, targets), BALANCE, 41.0) == {}


def test_manual_placement_stays_without_new_brokers() -> None:
    image = with_topic(cluster_of(3), "t", on(1), on(1), on(1), on(1), on(2), on(3))
    healing = Healing()
    healing.review(image, BALANCE, 0.0)
    assert healing.review(image, BALANCE, 1000.0) == {}


def test_an_empty_broker_has_come_before_this_controller_was_elected() -> None:
    image = with_topic(cluster_of(3), "t", *[on(1, 2)] * 6)
    healing = Healing()
    healing.review(image, BALANCE, 0.0)
    assert healing.review(image, BALANCE, 30.0) != {}


def test_nothing_is_spread_while_a_broker_is_away() -> None:
    image = without(with_topic(cluster_of(4), "t", *[on(1, 2)] * 6), 3)
    healing = Healing()
    healing.review(image, BALANCE, 0.0)
    assert healing.review(image, BALANCE, 1000.0) == {}
