"""The answers in these tests were compared with those of Apache Kafka 4.3.1."""

from typing import Any

import pytest

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import ZERO_UUID, new_uuid
from barnabas.controller.topics import NewTopic
from barnabas.controller.topics import create_topics as decide_topics
from barnabas.handlers.topics import create_partitions, create_topics, delete_topics
from barnabas.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.handlers.brokers import Client

DISK_FULL = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "disk full")


def client_with(*names: str, **settings: str) -> Client:
    client = Client(1, {name.replace("_", "."): value for name, value in settings.items()})
    wanted = [NewTopic(name, 1, 1) for name in names]
    client.decide(lambda image: decide_topics(image, wanted, client.broker.policy))
    return client


# -- CreateTopics


def topic(name: str, partitions: int = 1, factor: int = 1, **configs: str) -> CreatableTopic:
    values = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    return CreatableTopic(name, partitions, factor, configs=values)


def create(client: Client, version: int, *topics: CreatableTopic, validate_only: bool = False) -> Any:
    request = CreateTopicsRequest(list(topics), validate_only=validate_only)
    return client.ask(create_topics, request, version).topics


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_created_in_every_version(version: int) -> None:
    client = client_with()
    (result,) = create(client, version, topic("orders", 3, 1, retention_ms="5000"))
    state = client.image.topics["orders"]
    assert (result.name, result.error_code, result.error_message) == ("orders", 0, None)
    assert result.topic_id == (state.topic_id if version >= 7 else ZERO_UUID)
    assert result.num_partitions == (3 if version >= 5 else -1)
    assert result.replication_factor == (1 if version >= 5 else -1)
    assert len(state.partitions) == 3
    configs = {config.name: config for config in result.configs}
    assert bool(configs) == (version >= 5)
    if configs:
        assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5000", 1)
        assert (configs["cleanup.policy"].value, configs["cleanup.policy"].config_source) == ("delete", 5)


def test_checking_only_creates_nothing() -> None:
    client = client_with("exists")
    results = create(client, 7, topic("new"), topic("exists"), validate_only=True)
    assert [result.error_code for result in results] == [0, ErrorCode.TOPIC_ALREADY_EXISTS]
    assert list(client.image.topics) == ["exists"]


def test_replicas_can_be_placed_by_hand() -> None:
    client = client_with()
    by_hand = CreatableTopic("t", -1, -1, assignments=[CreatableReplicaAssignment(0, [1])])
    (result,) = create(client, 7, by_hand)
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 1, 1)


@pytest.mark.parametrize("version", range(2, 8))
def test_rejected_topic_has_a_reason(version: int) -> None:
    results = create(client_with("exists"), version, topic("exists"), topic("few", 1, 3), topic("ok"))
    assert [result.error_code for result in results] == [
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.NONE,
    ]
    assert results[0].error_message == "Topic 'exists' already exists."
    assert (results[0].num_partitions, results[0].configs) == (-1, [])


def test_nothing_is_created_when_the_metadata_cannot_be_written() -> None:
    client = client_with()
    client.broker.store.fail_next = DISK_FULL
    (result,) = create(client, 7, topic("t"))
    assert (result.error_code, result.error_message) == (ErrorCode.KAFKA_STORAGE_ERROR, "disk full")
    assert client.image.topics == {}


# -- DeleteTopics


def delete(client: Client, version: int, *topics: DeleteTopicState) -> dict[Any, Any]:
    if version < 6:
        request = DeleteTopicsRequest(topic_names=[topic.name or "" for topic in topics])
    else:
        request = DeleteTopicsRequest(topics=list(topics))
    results = client.ask(delete_topics, request, version).responses
    return {(result.name, result.topic_id): result for result in results}


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted_by_name_in_every_version(version: int) -> None:
    client = client_with("a", "b", "c")
    topic_id = client.image.topics["a"].topic_id if version >= 6 else ZERO_UUID
    names = [DeleteTopicState(name) for name in ("a", "nope", "c", "c")]
    results = delete(client, version, *names)
    assert {key: result.error_code for key, result in results.items()} == {
        ("a", topic_id): ErrorCode.NONE,
        ("nope", ZERO_UUID): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("c", ZERO_UUID): ErrorCode.INVALID_REQUEST,
    }
    text = results["c", ZERO_UUID].error_message
    assert text == ("Duplicate topic name." if version >= 5 else None)
    assert list(client.image.topics) == ["b", "c"]


def test_topics_are_deleted_by_id() -> None:
    client = client_with("a")
    topic_id, unknown = client.image.topics["a"].topic_id, new_uuid()
    results = delete(client, 6, DeleteTopicState(None, topic_id), DeleteTopicState(None, unknown))
    assert results["a", topic_id].error_code == 0
    assert results[None, unknown].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert results[None, unknown].error_message == "This server does not host this topic ID."
    assert client.image.topics == {}


def test_contradictory_deletions_delete_nothing() -> None:
    client = client_with("a", "b", "c")
    a, b, c = (client.image.topics[name].topic_id for name in "abc")
    results = delete(
        client,
        6,
        DeleteTopicState("a", a),
        DeleteTopicState("b"),
        DeleteTopicState(None, b),
        DeleteTopicState(None, c),
        DeleteTopicState(None, c),
        DeleteTopicState(None, ZERO_UUID),
    )
    assert {key: result.error_message for key, result in results.items()} == {
        ("a", a): "You may not specify both topic name and topic id.",
        ("b", b): "The provided topic name maps to an ID that was already supplied.",
        (None, c): "Duplicate topic id.",
        (None, ZERO_UUID): "Neither topic name nor id were specified.",
    }
    assert {result.error_code for result in results.values()} == {ErrorCode.INVALID_REQUEST}
    assert set(client.image.topics) == {"a", "b", "c"}


@pytest.mark.parametrize("version", range(1, 7))
def test_deletion_can_be_disabled(version: int) -> None:
    client = client_with("a", delete_topic_enable="false")
    expected = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    assert delete(client, version, DeleteTopicState("a"))["a", ZERO_UUID].error_code == expected
    assert "a" in client.image.topics


def test_nothing_is_deleted_when_the_metadata_cannot_be_written() -> None:
    client = client_with("a")
    client.broker.store.fail_next = DISK_FULL
    result = delete(client, 6, DeleteTopicState("a"))["a", ZERO_UUID]
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "a" in client.image.topics


# -- CreatePartitions


def grow(client: Client, version: int, *topics: CreatePartitionsTopic, validate_only: bool = False) -> Any:
    request = CreatePartitionsRequest(list(topics), validate_only=validate_only)
    return client.ask(create_partitions, request, version).results


@pytest.mark.parametrize("version", range(4))
def test_a_topic_gets_more_partitions_in_every_version(version: int) -> None:
    client = client_with("a")
    (result,) = grow(client, version, CreatePartitionsTopic("a", 3, None))
    assert (result.error_code, result.error_message) == (0, None)
    assert len(client.image.topics["a"].partitions) == 3


def test_more_partitions_can_be_placed_by_hand_and_only_checked() -> None:
    client = client_with("a")
    assignments = [CreatePartitionsAssignment([1])]
    (result,) = grow(client, 3, CreatePartitionsTopic("a", 2, assignments), validate_only=True)
    assert result.error_code == 0
    assert len(client.image.topics["a"].partitions) == 1


def test_rejected_growth_has_a_reason() -> None:
    client = client_with("a")
    results = grow(client, 3, CreatePartitionsTopic("a", 1, None), CreatePartitionsTopic("nope", 2, None))
    assert [(result.error_code, result.error_message) for result in results] == [
        (ErrorCode.INVALID_PARTITIONS, "Topic already has 1 partition(s)."),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
    ]


def test_a_topic_does_not_grow_when_the_metadata_cannot_be_written() -> None:
    client = client_with("a")
    client.broker.store.fail_next = DISK_FULL
    (result,) = grow(client, 3, CreatePartitionsTopic("a", 2, None))
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
