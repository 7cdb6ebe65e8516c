from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.image import PartitionState
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.controller.placement import place_replicas, replica_load
from tests.support.builders.images import broker, cluster_of, with_topic


@given(st.integers(1, 12), st.integers(1, 40), st.data())
def test_no_partition_has_two_replicas_on_one_broker(
    brokers: int, partitions: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, brokers))
    placed = place_replicas([broker(number) for number in range(brokers)], partitions, factor)
    assert len(placed) == partitions
    assert all(len(set(replicas)) == factor == len(replicas) for replicas in placed)


@given(st.integers(1, 12), st.integers(1, 60), st.data())
def test_leaders_and_replicas_are_spread_evenly(brokers: int, partitions: int, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, brokers))
    placed = place_replicas([broker(number) for number in range(brokers)], partitions, factor)
    leads = Counter(dict.fromkeys(range(brokers), 0))
    holds = Counter(dict.fromkeys(range(brokers), 0))
    for replicas in placed:
        leads[replicas[0]] += 1
        holds.update(replicas)
    assert max(leads.values()) - min(leads.values()) <= 1
    assert max(holds.values()) - min(holds.values()) <= 1


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=12), st.integers(1, 30), st.data())
def test_replicas_share_a_machine_only_when_there_are_too_few(
    hosts: list[str], partitions: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(hosts)))
    brokers = [broker(number, host=host) for number, host in enumerate(hosts)]
    for replicas in place_replicas(brokers, partitions, factor):
        assert len({hosts[replica] for replica in replicas}) == min(factor, len(set(hosts)))


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=12), st.integers(1, 30), st.data())
def test_replicas_share_a_rack_only_when_there_are_too_few(
    racks: list[str], partitions: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(racks)))
    brokers = [broker(number, host=f"h{number}", rack=rack) for number, rack in enumerate(racks)]
    for replicas in place_replicas(brokers, partitions, factor):
        assert len({racks[replica] for replica in replicas}) == min(factor, len(set(racks)))


def test_a_machine_counts_more_than_a_rack() -> None:
    brokers = [broker(1, "a", "r1"), broker(2, "a", "r2"), broker(3, "b", "r1")]
    assert place_replicas(brokers, 1, 2) == [(1, 3)]


def test_one_partition_topics_go_where_there_is_least() -> None:
    assert place_replicas([broker(1), broker(2), broker(3)], 1, 1, load={1: 5, 2: 3, 3: 4}) == [(2,)]


def test_brokers_that_are_down_never_lead_and_hold_replicas_last() -> None:
    brokers = [broker(1, fenced=True), broker(2), broker(3)]
    assert all(1 not in replicas for replicas in place_replicas(brokers, 6, 2))
    assert all(replicas[2] == 1 for replicas in place_replicas(brokers, 6, 3))


@pytest.mark.parametrize(
    ("brokers", "reason"),
    [([broker(1)], "only 1 broker"), ([broker(1, fenced=True), broker(2, fenced=True)], "fenced")],
)
def test_too_few_brokers_are_an_invalid_replication_factor(brokers: list[object], reason: str) -> None:
    with pytest.raises(KafkaError, match=reason) as caught:
        place_replicas(brokers, 1, 2)  # type: ignore[arg-type]
    assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_load_counts_every_replica() -> None:
    image = with_topic(cluster_of(2), "t", PartitionState((1, 2), (1,), 1), PartitionState((2,), (2,), 2))
    assert replica_load(image) == {1: 1, 2: 2}
