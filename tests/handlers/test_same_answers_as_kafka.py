"""The same requests to Apache Kafka and Barnabas must get the same responses.

What cannot be the same is left out before comparing: ids, ports, the order in lists that have none, and the
configs of created topics (which have tests of their own). What differs on purpose is not asked here: a topic
that Metadata creates is described at once, where Kafka wants to be asked again.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.connection import BrokerConnection
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
from barnabas.protocol.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    TopicRequest,
)
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
from barnabas.protocol.schema import Message, Struct
from barnabas.testing import EmbeddedBroker
from tests.support.kafka.broker import ApacheKafka

pytestmark = pytest.mark.java

UNKNOWN_ID = b"x" * 16
Question = tuple[Message, int]


def by_hand(
    name: str, *assignments: tuple[int, list[int]], partitions: int = -1, factor: int = -1
) -> CreatableTopic:
    rows = [CreatableReplicaAssignment(*assignment) for assignment in assignments]
    return CreatableTopic(name, partitions, factor, assignments=rows)


def with_config(name: str, key: str, value: str | None) -> CreatableTopic:
    return CreatableTopic(name, 1, 1, configs=[CreatableTopicConfig(key, value)])


def creations() -> Iterator[Question]:
    for version in range(2, 8):
        yield CreateTopicsRequest([CreatableTopic(f"v{version}", 1, 1)]), version
    yield CreateTopicsRequest([CreatableTopic("three", 3, 1), CreatableTopic("dots.a", -1, -1)]), 7
    names = ["", ".", "..", "a" * 250, "a b", "ü", "three", "dots_a", "__cluster_metadata"]
    yield CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names]), 7
    yield CreateTopicsRequest([CreatableTopic("twice", 1, 1), CreatableTopic("twice", 2, 1)]), 7
    numbers = [(0, 1), (-2, 1), (1, 0), (1, -2)]
    yield CreateTopicsRequest([CreatableTopic(f"n{i}", *pair) for i, pair in enumerate(numbers)]), 7
    yield CreateTopicsRequest([CreatableTopic("huge", 20_000, 1), CreatableTopic("small", 1, 1)]), 7
    assigned = [
        by_hand("a1", (0, [1]), partitions=1),
        by_hand("a2", (0, [1]), factor=1),
        by_hand("a3", (0, [9])),
        by_hand("a4", (0, [1, 1])),
        by_hand("a5", (0, [])),
        by_hand("a6", (1, [1])),
        by_hand("a7", (0, [1]), (0, [1])),
        by_hand("a8", (0, [1]), (1, [1])),
    ]
    yield CreateTopicsRequest(assigned), 7
    configured = [with_config("c1", "nope", "1"), with_config("c2", "retention.ms", None)]
    yield CreateTopicsRequest(configured), 7
    checked = [CreatableTopic("not-yet", 1, 1), CreatableTopic("three", 1, 1)]
    yield CreateTopicsRequest(checked, validate_only=True), 7
    yield CreateTopicsRequest([]), 7


def growth() -> Iterator[Question]:
    cases: list[tuple[str, int, list[list[int]] | None]] = [
        ("v2", 3, None),
        ("three", 3, None),
        ("three", 2, None),
        ("three", -1, None),
        ("nope", 2, None),
        ("three", 5, [[1]]),
        ("three", 4, [[1, 2]]),
        ("three", 4, []),
        ("three", 4, [[]]),
    ]
    for name, count, lists in cases:
        rows = None if lists is None else [CreatePartitionsAssignment(brokers) for brokers in lists]
        yield CreatePartitionsRequest([CreatePartitionsTopic(name, count, rows)], 30_000), 3
    twice = [CreatePartitionsTopic("three", 4, None), CreatePartitionsTopic("three", 5, None)]
    yield CreatePartitionsRequest(twice, 30_000), 3
    yield CreatePartitionsRequest([CreatePartitionsTopic("three", 4, None)], 30_000, True), 0


def lookups() -> Iterator[Question]:
    for version in range(4, 14):
        topics = [MetadataRequestTopic(name=name) for name in ("three", "nope", "a b", "three")]
        yield MetadataRequest(topics, allow_auto_topic_creation=False), version
        yield MetadataRequest([]), version
    for version in range(4):
        yield MetadataRequest([MetadataRequestTopic(name="three")]), version
    for version in (8, 10):
        yield MetadataRequest([MetadataRequestTopic(name="three")], False, True, True), version
    yield MetadataRequest([MetadataRequestTopic(UNKNOWN_ID, None)]), 12
    yield MetadataRequest([MetadataRequestTopic(UNKNOWN_ID, "three")]), 11
    pages: list[tuple[list[str], int, Cursor | None]] = [
        (["v2", "three", "nope", "a b"], 2000, None),
        (["v2", "three"], 2, None),
        (["v2", "three"], 2, Cursor("v2", 1)),
        (["v2", "three"], 2000, Cursor("three", 100)),
        (["v2", "three"], 2000, Cursor("u", 0)),
        (["three"], 2000, Cursor("three", -1)),
        ([], 3, None),
        ([], 1, Cursor("b", 0)),
        ([], 0, None),
        ([], 2000, None),
    ]
    for names, limit, cursor in pages:
        yield DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, cursor), 0


def administration() -> Iterator[Question]:
    for election_type in (0, 1, 5):
        wanted = [TopicPartitions("three", [0, 9]), TopicPartitions("nope", [0])]
        yield ElectLeadersRequest(election_type, wanted), 2
    yield ElectLeadersRequest(0, None), 2
    yield ElectLeadersRequest(0, [TopicPartitions("three", [0])]), 0
    moves = [([1], 0), ([9], 1), (None, 2), ([1], 7), (None, 8), ([1, 1], 0), ([], 1)]
    rows = [ReassignablePartition(index, brokers) for brokers, index in moves]
    topics = [ReassignableTopic("three", rows), ReassignableTopic("nope", rows[:1])]
    yield AlterPartitionReassignmentsRequest(topics=topics), 1
    yield AlterPartitionReassignmentsRequest(topics=topics[:1], allow_replication_factor_change=False), 1
    yield ListPartitionReassignmentsRequest(), 0
    yield ListPartitionReassignmentsRequest(topics=[ListPartitionReassignmentsTopics("nope", [0])]), 0
    for version in range(3):
        yield DescribeClusterRequest(include_cluster_authorized_operations=True), version
        yield UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("nope", 1)]), version
    yield UpdateFeaturesRequest(feature_updates=[]), 1
    for endpoint_type in (2, 3):
        yield DescribeClusterRequest(endpoint_type=endpoint_type), 1
    yield UnregisterBrokerRequest(9), 0


def deletions() -> Iterator[Question]:
    for version in range(1, 6):
        names = ["nope", f"v{version + 1}", "three", "three"]
        yield DeleteTopicsRequest(topic_names=names, timeout_ms=30_000), version
    requested = [
        DeleteTopicState("nope"),
        DeleteTopicState(None, UNKNOWN_ID),
        DeleteTopicState(None),
        DeleteTopicState("three", UNKNOWN_ID),
        DeleteTopicState("v7"),
    ]
    yield DeleteTopicsRequest(topics=requested, timeout_ms=30_000), 6


def test_barnabas_answers_as_apache_kafka_does(tmp_path: Path) -> None:
    questions = [*creations(), *growth(), *lookups(), *administration(), *deletions()]
    with ApacheKafka(tmp_path / "kafka", heap="256m") as kafka, EmbeddedBroker() as broker:
        expected = asyncio.run(answers(kafka.bootstrap_servers, questions))
        ours = asyncio.run(answers(broker.bootstrap_servers, questions))
    for (request, version), their_answer, our_answer in zip(questions, expected, ours, strict=True):
        assert our_answer == their_answer, f"{request!r} in version {version}"


async def answers(address: str, questions: list[Question]) -> list[Any]:
    host, _, port = address.rpartition(":")
    connection = await BrokerConnection.connect(host, int(port))
    try:
        return [comparable(await connection.send(request, version)) for request, version in questions]
    finally:
        connection.close()


DIFFERENT_ANYWHERE = {"topic_id", "port", "cluster_id", "configs", "throttle_time_ms"}


def comparable(value: Any) -> Any:
    if isinstance(value, Struct):
        fields = {field.name: getattr(value, field.name) for field in value.FIELDS}
        return {name: comparable(part) for name, part in fields.items() if name not in DIFFERENT_ANYWHERE}
    if isinstance(value, list) and value and isinstance(value[0], Struct):
        return sorted((comparable(item) for item in value), key=repr)
    return value
