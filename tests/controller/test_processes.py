"""Transfers between the processes of a node: fewer or more processes, reassignment to a sibling."""

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.deltas import BrokerRemoved, BrokerStored, Delta, apply
from barnabas.cluster.features import METADATA_VERSION, MIRROR_LEVEL, PROCESSES_LEVEL, in_terms_of
from barnabas.cluster.image import EMPTY_IMAGE, NO_LEADER, BrokerState, MetadataImage, PartitionState
from barnabas.cluster.processes import NodeProcess, represented
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.config.broker import BrokerConfig
from barnabas.controller.brokers import fence
from barnabas.controller.decision import ControllerPolicy
from barnabas.controller.internal_topics import internal_topic
from barnabas.controller.placement import place_replicas
from barnabas.controller.processes import check_ids, finalize_processes, replace_gone, spread
from barnabas.controller.reassignment import alter_reassignments
from tests.support.builders.images import broker, with_topic

POLICY = ControllerPolicy()


def process(k: int, node: int = 1, **fields: object) -> Delta:
    return BrokerStored(msgspec.structs.replace(broker(node + 1000 * k), node=node, **fields))


def brokers_of(*brokers: BrokerState) -> MetadataImage:
    return apply(EMPTY_IMAGE, [BrokerStored(each) for each in brokers])


def node_of(count: int, **topics: list[tuple[int, ...]]) -> MetadataImage:
    image = brokers_of(*[msgspec.structs.replace(broker(1 + 1000 * k), node=1) for k in range(count)])
    for name, replicas in topics.items():
        image = with_topic(image, name, *[PartitionState(each, each, each[0]) for each in replicas])
    return image


def held(image: MetadataImage) -> Counter[int]:
    return Counter(each for _, _, state in image.partitions() for each in state.replicas)


def test_partitions_of_dead_processes_move_to_their_substitutes() -> None:
    image = node_of(4, orders=[(1,), (1001,), (2001,), (3001,)])
    image = apply(image, fence(image, 3001, POLICY)[0])
    state = image.partition("orders", 3)
    assert state is not None
    assert state.leader == NO_LEADER
    deltas, moved = replace_gone(image, 1, 2, POLICY)
    after = apply(image, deltas)
    assert moved == 2
    assert set(after.brokers) == {1, 1001}
    assert [each.leader for each in after.topics["orders"].partitions] == [1, 1001, 1, 1001]
    for before, now in zip(
        image.topics["orders"].partitions[2:], after.topics["orders"].partitions[2:], strict=True
    ):
        assert now.leader_epoch == before.leader_epoch + 1
        assert now.partition_epoch == before.partition_epoch + 1
        assert now.isr == now.replicas == (now.leader,)
    assert represented(image, 1, NodeProcess(1, 2)) == {1, 2001}
    assert represented(image, 1001, NodeProcess(1, 2)) == {1001, 3001}
    assert represented(image, 1, NodeProcess(1, 1)) == {1, 1001, 2001, 3001}


def test_other_nodes_keep_their_brokers() -> None:
    image = apply(node_of(2, orders=[(1,), (1001,)]), [BrokerStored(broker(5))])
    deltas, _ = replace_gone(image, 1, 1, POLICY)
    assert [delta.broker_id for delta in deltas if isinstance(delta, BrokerRemoved)] == [1001]
    assert represented(image, 5, NodeProcess(5, 1)) == {5}


@given(st.lists(st.integers(1, 12), min_size=1, max_size=8), st.integers(2, 6))
def test_growth_makes_each_topic_and_the_node_even(sizes: list[int], count: int) -> None:
    topics: dict[str, list[tuple[int, ...]]] = {
        f"t{number}": [(1,)] * size for number, size in enumerate(sizes)
    }
    image = node_of(count, **topics)
    deltas, moved = spread(image, 1, count, POLICY)
    after = apply(image, deltas)
    ids = [1 + 1000 * k for k in range(count)]
    total = held(after)
    assert max(total[each] for each in ids) - min(total[each] for each in ids) <= 1
    assert moved == sum(sizes) - total[1]  # no partition moves that could stay
    for topic in after.topics.values():
        of_topic = Counter(state.leader for state in topic.partitions)
        assert max(of_topic[each] for each in ids) - min(of_topic[each] for each in ids) <= 1
    assert spread(after, 1, count, POLICY)[1] == 0


def test_a_reassignment_to_a_sibling_is_complete_at_once() -> None:
    image = node_of(2, orders=[(1,)])
    deltas, errors = alter_reassignments(image, [(TopicPartition("orders", 0), (1001,))], POLICY)
    assert errors == [None]
    state = apply(image, deltas).partition("orders", 0)
    assert state is not None
    assert (state.replicas, state.isr, state.leader) == ((1001,), (1001,), 1001)
    assert (state.leader_epoch, state.partition_epoch, state.being_reassigned) == (1, 1, False)


def test_two_processes_of_one_node_cannot_have_replicas_of_one_partition() -> None:
    image = node_of(2, orders=[(1,)])
    _, errors = alter_reassignments(image, [(TopicPartition("orders", 0), (1, 1001))], POLICY)
    assert errors[0] is not None
    assert "two processes of one node" in errors[0].message
    with pytest.raises(KafkaError, match=r"2 broker\(s\) on 1 node"):
        place_replicas(list(image.brokers.values()), 1, 2)
    offsets = internal_topic(BrokerConfig.load({}), image, "__consumer_offsets")
    assert offsets is not None
    assert offsets.replication_factor == 1


def test_replicas_are_on_different_nodes() -> None:
    brokers = [
        msgspec.structs.replace(broker(node + 1000 * k), node=node) for node in (1, 2, 3) for k in range(3)
    ]
    for replicas in place_replicas(brokers, 30, 3):
        assert {each % 1000 for each in replicas} == {1, 2, 3}


def test_an_id_of_another_broker_is_refused() -> None:
    image = apply(brokers_of(broker(1)), [BrokerStored(broker(1001))])
    with pytest.raises(KafkaError, match="would be broker 1001") as refused:
        check_ids(image, 1, 2)
    assert refused.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    with pytest.raises(KafkaError, match="would be broker 2001"):
        check_ids(with_topic(brokers_of(broker(1)), "orders", PartitionState((2001,), (), -1)), 1, 3)
    check_ids(node_of(4), 1, 4)


def test_an_older_version_gets_no_process_in_its_log() -> None:
    image = brokers_of(broker(1))
    image = msgspec.structs.replace(image, features={METADATA_VERSION: MIRROR_LEVEL})
    with pytest.raises(KafkaError, match=f"{METADATA_VERSION}={PROCESSES_LEVEL}"):
        in_terms_of(image, [process(1)])
    assert in_terms_of(image, [BrokerStored(broker(2))])
    raised = apply(image, finalize_processes(image)[0])
    assert in_terms_of(raised, [process(1)])
    assert finalize_processes(raised)[0] == []
