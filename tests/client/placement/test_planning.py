"""Plans to drain and rebalance brokers, for random clusters."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.placement.planner import (
    NoPlanError,
    ReplicaMove,
    ReplicaPlacement,
    Site,
    drain,
    rebalance,
)
from barnabas.common.types import TopicPartition

Assignment = dict[TopicPartition, tuple[int, ...]]


@st.composite
def clusters(draw: st.DrawFn, places: bool = False, largest: int = 30) -> tuple[Assignment, list[Site]]:
    brokers = list(range(1, draw(st.integers(2, 6)) + 1))
    sites = [
        Site(
            broker,
            draw(st.sampled_from("ABC")) if places else "",
            draw(st.sampled_from(["a", "b", None])) if places else None,
        )
        for broker in brokers
    ]
    replicas = st.lists(st.sampled_from(brokers), min_size=1, max_size=3, unique=True).map(tuple)
    found = draw(st.lists(replicas, max_size=largest))
    return {TopicPartition(f"t{index % 3}", index // 3): chosen for index, chosen in enumerate(found)}, sites


def apply(assignment: Assignment, moves: list[ReplicaMove]) -> Assignment:
    assert all(assignment[move.partition] == move.before for move in moves)
    return {**assignment, **{move.partition: move.after for move in moves}}


def holds(assignment: Assignment, sites: list[Site]) -> dict[int, int]:
    counted = Counter(broker for replicas in assignment.values() for broker in replicas)
    return {site.id: counted[site.id] for site in sites}


def leads(assignment: Assignment, sites: list[Site]) -> dict[int, int]:
    counted = Counter(replicas[0] for replicas in assignment.values())
    return {site.id: counted[site.id] for site in sites}


def spread(counts: dict[int, int]) -> int:
    return max(counts.values()) - min(counts.values())


@given(clusters(places=True))
def test_a_plan_keeps_the_number_of_replicas_and_never_names_a_broker_twice(
    cluster: tuple[Assignment, list[Site]],
) -> None:
    assignment, sites = cluster
    for move in rebalance(assignment, sites):
        assert len(set(move.after)) == len(move.after) == len(move.before)
        assert set(move.after) <= {site.id for site in sites}


@given(clusters())
def test_brokers_are_balanced_with_the_fewest_copies(
    cluster: tuple[Assignment, list[Site]],
) -> None:
    assignment, sites = cluster
    moves = rebalance(assignment, sites)
    before, after = holds(assignment, sites), holds(apply(assignment, moves), sites)
    assert spread(after) <= 1
    low, rest = divmod(sum(before.values()), len(sites))
    high = low + (rest > 0)
    too_many = sum(max(0, count - high) for count in before.values())
    too_few = sum(max(0, low - count) for count in before.values())
    assert sum(len(move.added) for move in moves) == max(too_many, too_few)


@given(clusters(largest=6))
def test_no_order_of_the_replicas_makes_leaders_more_even(cluster: tuple[Assignment, list[Site]]) -> None:
    assignment, sites = cluster
    balanced = apply(assignment, rebalance(assignment, sites))
    squares = sum(count**2 for count in leads(balanced, sites).values())
    for leaders in product(*balanced.values()):
        assert squares <= sum(count**2 for count in Counter(leaders).values())


@given(clusters(places=True))
def test_a_balanced_cluster_is_left_alone(cluster: tuple[Assignment, list[Site]]) -> None:
    assignment, sites = cluster
    balanced = apply(assignment, rebalance(assignment, sites))
    assert rebalance(balanced, sites) == []


@given(clusters(places=True))
def test_no_partition_gets_more_crowded_in_hosts_or_racks(cluster: tuple[Assignment, list[Site]]) -> None:
    assignment, sites = cluster
    placement = ReplicaPlacement(assignment, sites)
    for move in rebalance(assignment, sites):
        hosts, racks = placement.crowding(move.before)
        hosts_then, racks_then = placement.crowding(move.after)
        assert hosts_then <= hosts
        assert racks_then <= racks


@given(clusters(places=True), st.integers(1, 6))
def test_drained_broker_has_no_replicas_and_others_keep_theirs(
    cluster: tuple[Assignment, list[Site]], leaving: int
) -> None:
    assignment, sites = cluster
    try:
        moves = drain(assignment, sites, leaving)
    except NoPlanError:
        assert any(len(replicas) > len(sites) - 1 for replicas in assignment.values())
        return
    for move in moves:
        assert leaving in move.before
        assert len(set(move.after)) == len(move.before)
        assert set(move.before) - {leaving} < set(move.after)
    assert all(leaving not in replicas for replicas in apply(assignment, moves).values())


@given(st.integers(1, 60), st.integers(3, 6))
def test_replicas_and_leaders_of_a_drained_broker_are_distributed_evenly(count: int, brokers: int) -> None:
    sites = [Site(broker) for broker in range(1, brokers + 1)]
    assignment: Assignment = {TopicPartition("t", index): (1,) for index in range(count)}
    after = apply(assignment, drain(assignment, sites, 1))
    staying = sites[1:]
    assert spread(holds(after, staying)) <= 1
    assert spread(leads(after, staying)) <= 1


def test_drained_replica_moves_to_a_rack_without_one() -> None:
    sites = [Site(1, rack="a"), Site(2, rack="b"), Site(3, rack="b"), Site(4, rack="a")]
    assignment: Assignment = {
        TopicPartition("t", 0): (1, 2),
        TopicPartition("u", 0): (4, 2),
        TopicPartition("u", 1): (4, 2),
    }
    (move,) = drain(assignment, sites, 1)
    assert set(move.after) == {2, 4}


def test_the_smallest_of_several_partitions_is_copied() -> None:
    assignment: Assignment = {TopicPartition("t", index): (1,) for index in range(2)}
    sizes = {TopicPartition("t", 0): 1000, TopicPartition("t", 1): 10}
    (move,) = rebalance(assignment, [Site(1), Site(2)], sizes)
    assert move == ReplicaMove(TopicPartition("t", 1), (1,), (2,))


def test_brokers_that_are_down_keep_their_replicas() -> None:
    assignment: Assignment = {TopicPartition("t", index): (9, 1) for index in range(4)}
    after = apply(assignment, rebalance(assignment, [Site(1), Site(2)]))
    assert all(9 in replicas for replicas in after.values())


def test_draining_without_another_broker_reports_a_remedy() -> None:
    with pytest.raises(NoPlanError, match="start another broker"):
        drain({TopicPartition("t", 0): (1, 2)}, [Site(1), Site(2)], 1)
