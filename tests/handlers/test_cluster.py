"""The answers in these tests were compared with those of Apache Kafka 4.3.1."""

from typing import Any

import pytest

from barnabas.cluster.features import SUPPORTED_FEATURES
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.controller.brokers import fence
from barnabas.controller.topics import NewTopic, create_topics
from barnabas.handlers import cluster
from barnabas.protocol.messages.cluster import (
    AlterPartitionReassignmentsRequest,
    DescribeClusterRequest,
    ElectLeadersRequest,
    FeatureUpdateKey,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
)
from tests.handlers.brokers import Client


def client_with(*topics: NewTopic, brokers: int = 1) -> Client:
    client = Client(brokers)
    client.decide(lambda image: create_topics(image, topics, client.broker.policy))
    return client


# -- DescribeCluster, UnregisterBroker


@pytest.mark.parametrize("version", range(3))
def test_a_cluster_is_described(version: int) -> None:
    response = Client(2).ask(cluster.describe_cluster, DescribeClusterRequest(), version)
    assert (response.error_code, response.cluster_id, response.controller_id) == (0, "the-cluster", 1)
    assert [(broker.broker_id, broker.host) for broker in response.brokers] == [(1, "host1"), (2, "host2")]
    assert response.cluster_authorized_operations == -(2**31)


def test_allowed_operations_are_returned_on_request() -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    response = Client().ask(cluster.describe_cluster, request, 0)
    assert response.cluster_authorized_operations == 8096


def test_fenced_brokers_are_returned_only_on_request() -> None:
    client = Client(2)
    client.decide(lambda image: fence(image, 2, client.broker.policy))
    seen = []
    for requested in (False, True):
        request = DescribeClusterRequest(include_fenced_brokers=requested)
        response = client.ask(cluster.describe_cluster, request, 2)
        seen.append([(broker.broker_id, broker.is_fenced) for broker in response.brokers])
    assert seen == [[(1, False)], [(1, False), (2, True)]]


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_controllers_are_not_to_be_found_here(endpoint_type: int, code: ErrorCode) -> None:
    request = DescribeClusterRequest(endpoint_type=endpoint_type)
    response = Client().ask(cluster.describe_cluster, request, 1)
    assert (response.error_code, response.brokers) == (code, [])


def test_only_a_known_broker_that_is_down_can_be_unregistered() -> None:
    client = Client(2)

    def unregister(broker_id: int) -> Any:
        return client.ask(cluster.unregister_broker, UnregisterBrokerRequest(broker_id), 0)

    response = unregister(9)
    assert response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert response.error_message == "Broker ID 9 is not currently registered"
    assert unregister(2).error_code == ErrorCode.INVALID_REQUEST
    client.decide(lambda image: fence(image, 2, client.broker.policy))
    assert unregister(2).error_code == 0
    assert list(client.image.brokers) == [1]


# -- ElectLeaders


def elections(response: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.topic, partition.partition_id): partition.error_code
        for topic in response.replica_election_results
        for partition in topic.partition_result
    }


@pytest.mark.parametrize("version", range(3))
def test_an_election_that_changes_nothing_is_not_needed(version: int) -> None:
    client = client_with(NewTopic("ok"))
    request = ElectLeadersRequest(0, [TopicPartitions("ok", [0, 9]), TopicPartitions("nope", [0])])
    response = client.ask(cluster.elect_leaders, request, version)
    assert response.error_code == 0
    assert elections(response) == {
        ("ok", 0): ErrorCode.ELECTION_NOT_NEEDED,
        ("ok", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nope", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    texts = [
        partition.error_message
        for topic in response.replica_election_results
        for partition in topic.partition_result
    ]
    assert texts == [
        "Leader election not needed for topic partition.",
        "No such partition as ok-9",
        "No such topic as nope",
    ]


def test_election_for_all_partitions_returns_only_those_that_needed_one() -> None:
    response = client_with(NewTopic("ok")).ask(cluster.elect_leaders, ElectLeadersRequest(0, None), 2)
    assert [topic.topic for topic in response.replica_election_results] == ["ok"]
    assert elections(response) == {}


def test_an_unknown_kind_of_election_is_an_invalid_request() -> None:
    request = ElectLeadersRequest(5, [TopicPartitions("ok", [0])])
    response = client_with(NewTopic("ok")).ask(cluster.elect_leaders, request, 2)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert elections(response) == {("ok", 0): ErrorCode.INVALID_REQUEST}


# -- reassignments


def test_each_move_is_answered_by_itself() -> None:
    client = client_with(NewTopic("ok", 3, 1))
    moves = [
        ReassignablePartition(0, [1]),
        ReassignablePartition(1, [9]),
        ReassignablePartition(2, None),
        ReassignablePartition(7, [1]),
    ]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic("ok", moves)])
    response = client.ask(cluster.alter_partition_reassignments, request, 1)
    assert response.error_code == 0
    (topic,) = response.responses
    assert [(row.partition_index, row.error_code) for row in topic.partitions] == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert topic.partitions[2].error_message is None
    assert topic.partitions[3].error_message == "Unable to find partition ok:7."


def test_a_move_under_way_is_listed_until_it_is_called_off() -> None:
    client = client_with(NewTopic("t", assignments=[(0, [1])]), brokers=2)

    def move(replicas: list[int] | None) -> None:
        topic = ReassignableTopic("t", [ReassignablePartition(0, replicas)])
        request = AlterPartitionReassignmentsRequest(topics=[topic])
        response = client.ask(cluster.alter_partition_reassignments, request, 0)
        assert response.responses[0].partitions[0].error_code == 0

    def listed(topics: list[ListPartitionReassignmentsTopics] | None) -> Any:
        request = ListPartitionReassignmentsRequest(topics=topics)
        return client.ask(cluster.list_partition_reassignments, request, 0).topics

    assert listed(None) == []
    move([2])
    for topics in (None, [ListPartitionReassignmentsTopics("t", [0, 5])]):
        ((partition,),) = [topic.partitions for topic in listed(topics)]
        assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == (
            [2, 1],
            [2],
            [1],
        )
    assert listed([ListPartitionReassignmentsTopics("nope", [0])]) == []
    move(None)
    assert listed(None) == []


def test_a_reassignment_that_cannot_be_stored_fails_as_a_whole() -> None:
    client = client_with(NewTopic("t", assignments=[(0, [1])]), brokers=2)
    client.broker.store.fail_next = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "disk full")
    topic = ReassignableTopic("t", [ReassignablePartition(0, [2])])
    request = AlterPartitionReassignmentsRequest(topics=[topic])
    response = client.ask(cluster.alter_partition_reassignments, request, 0)
    assert (response.error_code, response.error_message) == (ErrorCode.KAFKA_STORAGE_ERROR, "disk full")


# -- features


def update(client: Client, version: int, *updates: FeatureUpdateKey) -> Any:
    request = UpdateFeaturesRequest(feature_updates=list(updates))
    return client.ask(cluster.update_features, request, version)


@pytest.mark.parametrize("version", range(3))
def test_an_unknown_feature_fails_the_whole_update(version: int) -> None:
    response = update(Client(), version, FeatureUpdateKey("nope", 1))
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert response.error_message == (
        "The update failed for all features since the following feature had an error: Invalid update "
        "version 1 for feature nope. Local controller 1 does not support this feature."
    )
    assert response.results == []


def test_of_updates_of_one_feature_the_last_one_counts() -> None:
    known, unknown = FeatureUpdateKey("group.version", 9), FeatureUpdateKey("nope", 1)
    response = update(Client(), 1, *[known] * 10_000, FeatureUpdateKey("group.version", 0))
    assert (response.error_code, [each.feature for each in response.results]) == (0, ["group.version"])
    unsupported = [FeatureUpdateKey(f"feature-{each}", 0) for each in range(10_000)]
    response = update(Client(), 2, *unsupported, unknown)
    assert "for feature feature-0." in response.error_message


@pytest.mark.parametrize("version", range(3))
def test_a_supported_feature_is_finalized_and_taken_back(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SUPPORTED_FEATURES, "group.version", (0, 1))
    client = Client()
    client.decide(lambda image: _supporting(client, "group.version"))
    assert update(client, version, FeatureUpdateKey("group.version", 1)).error_code == 0
    assert client.image.features == {"group.version": 1}
    refused = update(client, version, FeatureUpdateKey("group.version", 0))
    assert "without setting the upgrade type" in refused.error_message
    down = FeatureUpdateKey(
        "group.version", 0, allow_downgrade=version == 0, upgrade_type=2 if version else 1
    )
    assert update(client, version, down).error_code == 0
    assert client.image.features == {}


def _supporting(client: Client, feature: str) -> Any:
    from msgspec.structs import replace

    from barnabas.cluster.deltas import BrokerStored

    return [BrokerStored(replace(client.image.brokers[1], features={feature: (0, 1)}))], None
