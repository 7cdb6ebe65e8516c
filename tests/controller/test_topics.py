from collections.abc import Mapping

import pytest

from barnabas.cluster.deltas import PartitionsAdded
from barnabas.cluster.image import PartitionState
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import new_uuid
from barnabas.controller.brokers import fence
from barnabas.controller.decision import ControllerPolicy
from barnabas.controller.topics import (
    CreatedTopic,
    MorePartitions,
    NewTopic,
    create_partitions,
    create_topics,
    delete_topics,
)
from tests.support.builders.images import POLICY, after, cluster_of, with_topic

ONE = PartitionState((1,), (1,), 1)


def error_of(topic: NewTopic, brokers: int = 3, policy: ControllerPolicy = POLICY) -> KafkaError:
    image = with_topic(cluster_of(brokers), "exists", ONE)
    deltas, results = create_topics(image, [topic], policy)
    result = results[topic.name]
    assert isinstance(result, KafkaError)
    assert deltas == []
    return result


def test_a_topic_gets_the_partitions_and_replicas_it_asks_for() -> None:
    image = cluster_of(3)
    decided = create_topics(image, [NewTopic("orders", 4, 2, configs={"retention.ms": "7"})], POLICY)
    created = decided[1]["orders"]
    assert isinstance(created, CreatedTopic)
    assert created.replication_factor == 2
    image = after(image, decided)
    assert image.topics["orders"] == created.state
    assert image.topic_configs("orders") == {"retention.ms": "7"}
    for partition in created.state.partitions:
        assert partition.isr == partition.replicas
        assert partition.leader == partition.replicas[0]
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)


def test_minus_one_means_the_brokers_defaults() -> None:
    policy = ControllerPolicy(num_partitions=5, default_replication_factor=2)
    _, results = create_topics(cluster_of(3), [NewTopic("orders")], policy)
    created = results["orders"]
    assert isinstance(created, CreatedTopic)
    assert (len(created.state.partitions), created.replication_factor) == (5, 2)


def test_replicas_by_hand_are_taken_as_they_are_and_the_first_that_is_up_leads() -> None:
    image = cluster_of(3)
    image = after(image, fence(image, 3, POLICY))
    decided = create_topics(image, [NewTopic("t", assignments=[(1, [2, 1]), (0, [3, 2])])], POLICY)
    partitions = after(image, decided).topics["t"].partitions
    assert partitions == (PartitionState((3, 2), (2,), 2), PartitionState((2, 1), (2, 1), 2))


def test_checking_only_gives_the_same_result_and_stores_nothing() -> None:
    deltas, results = create_topics(cluster_of(1), [NewTopic("t", 2, 1)], POLICY, validate_only=True)
    assert deltas == []
    assert isinstance(results["t"], CreatedTopic)


def test_a_topic_that_is_refused_does_not_hold_up_the_others() -> None:
    image = cluster_of(1)
    decided = create_topics(image, [NewTopic("bad", 0), NewTopic("good", 1)], POLICY)
    assert list(after(image, decided).topics) == ["good"]


@pytest.mark.parametrize(
    ("topic", "code", "text"),
    [
        (NewTopic("exists"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'exists' already exists."),
        (NewTopic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: 'a b' contains"),
        (NewTopic("t", 0), ErrorCode.INVALID_PARTITIONS, "invalid non-positive value"),
        (NewTopic("t", -2), ErrorCode.INVALID_PARTITIONS, "invalid non-positive value"),
        (NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "must be larger than 0"),
        (NewTopic("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR, "must be larger than 0"),
        (
            NewTopic("t", 1, 4),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            (
                "Unable to replicate the partition 4 time(s): The target replication factor of 4 cannot be "
                "reached because only 3 broker(s) are registered."
            ),
        ),
        (NewTopic("t", 10_001), ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions"),
        (NewTopic("t", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG, "Null value"),
        (NewTopic("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "prohibited"),
        (
            NewTopic("t", 1, assignments=[(0, [1])]),
            ErrorCode.INVALID_REQUEST,
            "numPartitions was not set to -1",
        ),
        (
            NewTopic("t", -1, 1, assignments=[(0, [1])]),
            ErrorCode.INVALID_REQUEST,
            "replication factor was not set to -1",
        ),
        (NewTopic("t", assignments=[(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty replica list"),
        (NewTopic("t", assignments=[(0, [9])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "includes broker 9"),
        (NewTopic("t", assignments=[(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "more than once"),
        (NewTopic("t", assignments=[(0, [1]), (0, [2])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "multiple"),
        (NewTopic("t", assignments=[(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "consecutive 0-based"),
        (
            NewTopic("t", assignments=[(0, [1]), (1, [1, 2])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "not consistent with previous",
        ),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_kafkas_code(
    topic: NewTopic, code: ErrorCode, text: str
) -> None:
    error = error_of(topic)
    assert error.code is code
    assert text in error.message


def test_a_topic_may_not_differ_from_another_in_dots_and_underscores_only() -> None:
    image = with_topic(cluster_of(1), "a.b", ONE)
    _, results = create_topics(image, [NewTopic("a_b"), NewTopic("c.d"), NewTopic("c_d")], POLICY)
    assert isinstance(results["c.d"], CreatedTopic)
    for name, other in (("a_b", "a.b"), ("c_d", "c.d")):
        error = results[name]
        assert isinstance(error, KafkaError)
        assert error.code is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert error.message == f"Topic '{name}' collides with existing topic: {other}"


def test_duplicate_name_is_rejected_both_times() -> None:
    deltas, results = create_topics(cluster_of(1), [NewTopic("t"), NewTopic("t", 2)], POLICY)
    assert deltas == []
    error = results["t"]
    assert isinstance(error, KafkaError)
    assert (error.code, error.message) == (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


def test_overrides_are_checked_by_the_policy() -> None:
    def refuse(overrides: Mapping[str, str]) -> None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"no {list(overrides)}")

    error = error_of(NewTopic("t", configs={"x": "1"}), policy=ControllerPolicy(check_topic_configs=refuse))
    assert error.code is ErrorCode.INVALID_CONFIG


def test_deleted_topic_disappears_and_an_unknown_id_is_reported() -> None:
    image = with_topic(cluster_of(1), "t", ONE)
    known, unknown = image.topics["t"].topic_id, new_uuid()
    decided = delete_topics(image, [known, unknown])
    assert after(image, decided).topics == {}
    assert decided[1][known] == image.topics["t"]
    error = decided[1][unknown]
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.UNKNOWN_TOPIC_ID


def test_more_partitions_join_those_that_exist() -> None:
    image = with_topic(cluster_of(3), "t", PartitionState((1, 2), (1, 2), 1))
    decided = create_partitions(image, [MorePartitions("t", 3)])
    partitions = after(image, decided).topics["t"].partitions
    assert partitions[0] == image.topics["t"].partitions[0]
    assert [len(partition.replicas) for partition in partitions] == [2, 2, 2]


def test_more_partitions_can_be_placed_by_hand() -> None:
    image = with_topic(cluster_of(3), "t", ONE)
    decided = create_partitions(image, [MorePartitions("t", 2, [[3]])])
    assert after(image, decided).topics["t"].partitions[1].replicas == (3,)


@pytest.mark.parametrize(
    ("request_", "code", "text"),
    [
        (MorePartitions("none", 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (MorePartitions("t", 1), ErrorCode.INVALID_PARTITIONS, "Topic already has 1 partition(s)."),
        (
            MorePartitions("t", 0),
            ErrorCode.INVALID_PARTITIONS,
            "The topic t currently has 1 partition(s); 0 would not be an increase.",
        ),
        (MorePartitions("t", 3, [[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "but only 1 assignment(s)"),
        (MorePartitions("t", 2, [[1, 2]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "not consistent"),
        (MorePartitions("t", 20_000), ErrorCode.POLICY_VIOLATION, "Excessively"),
    ],
)
def test_partitions_that_cannot_be_are_refused_with_kafkas_code(
    request_: MorePartitions, code: ErrorCode, text: str
) -> None:
    deltas, results = create_partitions(with_topic(cluster_of(3), "t", ONE), [request_])
    assert deltas == []
    error = results[request_.topic]
    assert isinstance(error, KafkaError)
    assert error.code is code
    assert text in error.message


def test_checking_more_partitions_only_stores_nothing() -> None:
    image = with_topic(cluster_of(1), "t", ONE)
    deltas, results = create_partitions(image, [MorePartitions("t", 2)], validate_only=True)
    assert deltas == []
    assert isinstance(results["t"], PartitionsAdded)
