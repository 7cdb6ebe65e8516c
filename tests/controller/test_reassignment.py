from barnabas.cluster.image import MetadataImage, PartitionState
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.controller.isr import ProposedIsr, alter_isr
from barnabas.controller.reassignment import alter_reassignments, list_reassignments
from tests.support.builders.images import POLICY, after, cluster_of, with_topic

T0 = TopicPartition("t", 0)


def moving(target: list[int] | None, image: MetadataImage | None = None) -> MetadataImage:
    image = image or with_topic(cluster_of(4), "t", PartitionState((1, 2), (1, 2), 1))
    decided = alter_reassignments(image, [(T0, target)], POLICY)
    assert decided[1] == [None]
    return after(image, decided)


def state_of(image: MetadataImage) -> PartitionState:
    return image.topics["t"].partitions[0]


def in_sync(image: MetadataImage, *isr: int) -> MetadataImage:
    """The leader reports this ISR."""
    state = state_of(image)
    members = [(broker, image.brokers[broker].epoch) for broker in isr]
    proposal = ProposedIsr(image.topics["t"].topic_id, 0, state.leader_epoch, state.partition_epoch, members)
    return after(image, alter_isr(image, state.leader, image.brokers[state.leader].epoch, [proposal], POLICY))


def test_a_move_adds_first_and_removes_when_the_new_replicas_are_in_sync() -> None:
    image = moving([3, 4])
    state = state_of(image)
    assert (state.replicas, state.adding_replicas, state.removing_replicas) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert state.leader == 1
    assert list_reassignments(image, None) == {T0: state}
    image = in_sync(image, 1, 2, 3)
    assert state_of(image).being_reassigned
    state = state_of(in_sync(image, 1, 2, 3, 4))
    assert (state.replicas, state.isr, state.leader) == ((3, 4), (3, 4), 3)
    assert not state.being_reassigned


def test_a_move_to_the_same_brokers_in_another_order_is_done_at_once() -> None:
    state = state_of(moving([2, 1]))
    assert (state.replicas, state.being_reassigned, state.leader) == ((2, 1), False, 1)


def test_a_move_that_only_removes_is_done_at_once() -> None:
    state = state_of(moving([1]))
    assert (state.replicas, state.isr, state.being_reassigned) == ((1,), (1,), False)


def test_a_cancelled_move_leaves_everything_where_it_was() -> None:
    state = state_of(moving(None, in_sync(moving([3, 4]), 1, 2, 3)))
    assert (sorted(state.replicas), state.isr, state.being_reassigned) == ([1, 2], (1, 2), False)


def test_a_move_can_be_replaced_by_another() -> None:
    state = state_of(moving([4], moving([3])))
    assert state.adding_replicas == (4,)
    assert set(state.removing_replicas) == {1, 2, 3}


def test_impossible_moves_are_rejected_with_kafkas_code() -> None:
    image = with_topic(cluster_of(2), "t", PartitionState((1,), (1,), 1))
    cases = [
        (TopicPartition("nope", 0), [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicPartition("t", 9), [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (T0, [9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (T0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (T0, [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (T0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ]
    deltas, results = alter_reassignments(image, [(tp, target) for tp, target, _ in cases], POLICY)
    assert deltas == []
    codes = [result.code if isinstance(result, KafkaError) else None for result in results]
    assert codes == [code for _, _, code in cases]


def test_the_replication_factor_stays_if_it_is_not_to_change() -> None:
    image = with_topic(cluster_of(2), "t", PartitionState((1,), (1,), 1))
    _, (result,) = alter_reassignments(image, [(T0, [1, 2])], POLICY, allow_replication_factor_change=False)
    assert isinstance(result, KafkaError)
    assert result.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_only_requested_partitions_are_listed() -> None:
    image = moving([3, 4])
    assert list_reassignments(image, [TopicPartition("t", 5), TopicPartition("u", 0)]) == {}
    assert list(list_reassignments(image, [T0])) == [T0]
