"""The answers in these tests were compared with those of Apache Kafka 4.3.1."""

from typing import Any

import pytest

from barnabas.cluster.deltas import TopicCreated
from barnabas.cluster.image import PartitionState, TopicState
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import ZERO_UUID, new_uuid
from barnabas.controller.brokers import fence
from barnabas.controller.topics import NewTopic, create_topics
from barnabas.handlers.metadata import metadata
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.handlers.brokers import Client

VERSIONS = range(14)
SINCE_NULL = range(1, 14)


def client_with(*topics: str, brokers: int = 1, **settings: str) -> Client:
    client = Client(brokers, {name.replace("_", "."): value for name, value in settings.items()})
    client.decide(
        lambda image: create_topics(image, [NewTopic(name) for name in topics], client.broker.policy)
    )
    return client


def named(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


def errors_of(response: Any) -> dict[str, int]:
    return {topic.name: topic.error_code for topic in response.topics}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_is_described_in_every_version(version: int) -> None:
    client = client_with("orders")
    response = client.ask(metadata, MetadataRequest(topics=named("orders")), version)
    (broker,) = response.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, "host1", 9091)
    (topic,) = response.topics
    assert (topic.name, topic.error_code, topic.is_internal) == ("orders", 0, False)
    assert topic.topic_id == (client.image.topics["orders"].topic_id if version >= 10 else ZERO_UUID)
    (partition,) = topic.partitions
    assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (1, [1], [1])
    assert partition.leader_epoch == (0 if version >= 7 else -1)
    assert response.cluster_id == ("the-cluster" if version >= 2 else None)
    assert response.controller_id == (1 if version >= 1 else -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_null_list_means_all_topics_and_in_version_0_an_empty_one_does(version: int) -> None:
    client = client_with("a", "b")
    request = MetadataRequest(topics=None if version else [])
    assert set(errors_of(client.ask(metadata, request, version))) == {"a", "b"}


@pytest.mark.parametrize("version", SINCE_NULL)
def test_an_empty_list_means_no_topics(version: int) -> None:
    response = client_with("a").ask(metadata, MetadataRequest(topics=[]), version)
    assert response.topics == []
    assert len(response.brokers) == 1


@pytest.mark.parametrize("version", range(4, 14))
def test_an_unknown_topic_stays_unknown_when_the_client_does_not_want_it_created(version: int) -> None:
    client = client_with()
    request = MetadataRequest(topics=named("new", "a b"), allow_auto_topic_creation=False)
    assert errors_of(client.ask(metadata, request, version)) == {
        "new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert client.image.topics == {}


def test_an_unknown_topic_stays_unknown_when_the_broker_creates_none() -> None:
    client = client_with(auto_create_topics_enable="false")
    response = client.ask(metadata, MetadataRequest(topics=named("new")), 9)
    assert errors_of(response) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_topic_is_created_and_described_at_once(version: int) -> None:
    client = client_with(num_partitions="3")
    response = client.ask(metadata, MetadataRequest(topics=named("new", "new")), version)
    (topic,) = response.topics
    assert topic.error_code == 0
    assert [partition.leader_id for partition in topic.partitions] == [1, 1, 1]
    assert "new" in client.image.topics


def test_topic_that_cannot_be_created_reports_the_reason() -> None:
    client = client_with("a.b")
    response = client.ask(metadata, MetadataRequest(topics=named("a_b", "x y", "fine")), 12)
    assert errors_of(response) == {
        "a_b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "x y": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "fine": ErrorCode.NONE,
    }


def test_too_few_brokers_for_a_new_topic_are_an_invalid_replication_factor() -> None:
    client = client_with(default_replication_factor="3")
    response = client.ask(metadata, MetadataRequest(topics=named("new")), 12)
    assert errors_of(response) == {"new": ErrorCode.INVALID_REPLICATION_FACTOR}


def test_a_topic_stays_unknown_when_the_metadata_cannot_be_written() -> None:
    client = client_with()
    client.broker.store.fail_next = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "disk full")
    response = client.ask(metadata, MetadataRequest(topics=named("new")), 12)
    assert errors_of(response) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_internal_topics_are_created_with_the_settings_of_their_coordinator() -> None:
    client = client_with(offsets_topic_num_partitions="4")
    response = client.ask(metadata, MetadataRequest(topics=named("__consumer_offsets")), 12)
    (topic,) = response.topics
    assert (topic.error_code, topic.is_internal, len(topic.partitions)) == (0, True, 4)
    assert client.image.topic_configs("__consumer_offsets")["cleanup.policy"] == "compact"


def test_an_internal_topic_is_one_even_before_it_exists() -> None:
    request = MetadataRequest(topics=named("__transaction_state"), allow_auto_topic_creation=False)
    (topic,) = client_with().ask(metadata, request, 12).topics
    assert (topic.error_code, topic.is_internal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)


@pytest.mark.parametrize("version", [12, 13])
def test_topics_can_be_requested_by_id(version: int) -> None:
    client = client_with("orders")
    topic_id, unknown = client.image.topics["orders"].topic_id, new_uuid()
    requested = [
        MetadataRequestTopic(topic_id=topic_id, name=None),
        MetadataRequestTopic(topic_id=unknown, name=None),
    ]
    known, other = client.ask(metadata, MetadataRequest(topics=requested), version).topics
    assert (known.name, known.error_code, len(known.partitions)) == ("orders", 0, 1)
    assert (other.name, other.error_code, other.topic_id) == (None, ErrorCode.UNKNOWN_TOPIC_ID, unknown)


@pytest.mark.parametrize("version", [10, 11])
def test_ids_before_version_12_are_an_invalid_request(version: int) -> None:
    requested = [MetadataRequestTopic(topic_id=new_uuid(), name="orders")]
    response = client_with("orders").ask(metadata, MetadataRequest(topics=requested), version)
    assert errors_of(response) == {"orders": ErrorCode.INVALID_REQUEST}


def test_neither_name_nor_id_is_an_invalid_request() -> None:
    requested = [MetadataRequestTopic(name=None)]
    (topic,) = client_with().ask(metadata, MetadataRequest(topics=requested), 12).topics
    assert topic.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(8, 14))
def test_allowed_operations_are_returned_only_on_request(version: int) -> None:
    client = client_with("orders")
    for requested in (False, True):
        request = MetadataRequest(
            topics=named("orders"),
            include_topic_authorized_operations=requested,
            include_cluster_authorized_operations=requested and version <= 10,
        )
        response = client.ask(metadata, request, version)
        assert response.topics[0].topic_authorized_operations == (3576 if requested else -(2**31))
        notified = 8096 if requested and version <= 10 else -(2**31)
        assert response.cluster_authorized_operations == notified


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_without_a_leader_is_not_available(version: int) -> None:
    client = client_with(brokers=2)
    client.decide(
        lambda image: create_topics(image, [NewTopic("t", assignments=[(0, [2])])], client.broker.policy)
    )
    client.decide(lambda image: fence(image, 2, client.broker.policy))
    response = client.ask(metadata, MetadataRequest(topics=named("t")), version)
    (partition,) = response.topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert partition.replica_nodes == ([2] if version else [])
    assert partition.offline_replicas == ([2] if version >= 5 else [])
    assert [broker.node_id for broker in response.brokers] == [1]


@pytest.mark.parametrize("version", VERSIONS)
def test_only_version_0_complains_about_a_follower_that_is_down(version: int) -> None:
    client = client_with(brokers=2)
    client.decide(
        lambda image: create_topics(image, [NewTopic("t", assignments=[(0, [1, 2])])], client.broker.policy)
    )
    client.decide(lambda image: fence(image, 2, client.broker.policy))
    (topic,) = client.ask(metadata, MetadataRequest(topics=named("t")), version).topics
    (partition,) = topic.partitions
    assert partition.error_code == (0 if version else ErrorCode.REPLICA_NOT_AVAILABLE)
    assert partition.replica_nodes == ([1, 2] if version else [1])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_leader_without_the_clients_listener_cannot_be_reached(version: int) -> None:
    client = client_with("t")
    client.broker.node_id = 2  # the leader is another broker
    response = client.ask(metadata, MetadataRequest(topics=named("t")), version, listener="OTHER")
    (partition,) = response.topics[0].partitions
    expected = ErrorCode.LISTENER_NOT_FOUND if version > 5 else ErrorCode.LEADER_NOT_AVAILABLE
    assert (partition.error_code, partition.leader_id) == (expected, -1)


def test_thousands_of_partitions_are_described() -> None:
    client = client_with()
    state = TopicState("big", new_uuid(), (PartitionState((1,), (1,), 1),) * 5000)
    client.decide(lambda image: ([TopicCreated(state)], None))
    (topic,) = client.ask(metadata, MetadataRequest(topics=None), 12).topics
    assert [partition.partition_index for partition in topic.partitions] == list(range(5000))
