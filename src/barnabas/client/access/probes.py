"""Requests without side effects that require a right: if a broker accepts one, the user has that right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.client.fetching import NO_SESSION, NO_SESSION_EPOCH
from barnabas.protocol.messages.cluster import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.groups import DescribeGroupsRequest, HeartbeatRequest
from barnabas.protocol.messages.offsets import OffsetDeleteRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.transactions import DescribeTransactionsRequest, EndTxnRequest
from barnabas.protocol.schema import Message
from barnabas.security.authz import CLUSTER_NAME, Operation, ResourceType

TOPIC, BROKER, GROUP = 2, 4, 32  # resource types of the configuration APIs
TIMEOUT_MS = 5_000
NOBODY = -1  # no producer has this id
_LAST_BY_NAME = {FetchRequest: 12, ProduceRequest: 12}  # last versions that use topic names, not ids

Probe = Callable[[list[str]], list[Message]]


def messages(operation: Operation, resource_type: ResourceType, names: list[str]) -> list[Message]:
    """Probe requests; empty if no request reveals the right, which then counts as denied."""
    probe = _PROBES.get((resource_type, operation))
    return [] if probe is None else probe(names)


def version(message: Message, newest: int) -> int:
    return min(newest, _LAST_BY_NAME.get(type(message), newest))


def codes(message: Any, response: Any) -> list[tuple[str, int]]:
    """(name, error code) pairs of a response."""
    if isinstance(message, HeartbeatRequest | OffsetDeleteRequest):
        return [(message.group_id, response.error_code)]
    if isinstance(message, EndTxnRequest):
        return [(message.transactional_id, response.error_code)]
    if isinstance(message, AlterPartitionReassignmentsRequest | ListPartitionReassignmentsRequest):
        return [(CLUSTER_NAME, response.error_code)]
    if isinstance(message, DescribeGroupsRequest):
        return [(one.group_id, one.error_code) for one in response.groups]
    if isinstance(message, DescribeTransactionsRequest):
        return [(one.transactional_id, one.error_code) for one in response.transaction_states]
    if isinstance(message, CreatePartitionsRequest):
        return [(one.name, one.error_code) for one in response.results]
    if isinstance(message, CreateTopicsRequest):
        return [(one.name, one.error_code) for one in response.topics]
    return _in_partitions(response)


def _in_partitions(response: Any) -> list[tuple[str, int]]:
    if hasattr(response, "results"):  # DescribeConfigs
        return [(one.resource_name, one.error_code) for one in response.results]
    if hasattr(response, "topics"):  # DeleteRecords
        return [(topic.name, part.error_code) for topic in response.topics for part in topic.partitions]
    found = []
    for one in response.responses:
        if hasattr(one, "resource_name"):  # IncrementalAlterConfigs
            found.append((one.resource_name, one.error_code))
        elif hasattr(one, "partition_responses"):  # Produce
            found += [(one.name, part.error_code) for part in one.partition_responses]
        else:  # Fetch
            found += [(one.topic, part.error_code) for part in one.partitions]
    return found


def _fetch(names: list[str]) -> list[Message]:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    topics = [FetchTopic(topic=name, partitions=[partition]) for name in names]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, session_id=NO_SESSION, session_epoch=NO_SESSION_EPOCH, topics=topics
    )
    return [request]


def _produce(names: list[str]) -> list[Message]:
    topics = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=b"")])
        for name in names
    ]
    return [ProduceRequest(acks=1, timeout_ms=TIMEOUT_MS, topic_data=topics)]


def _delete_nothing(names: list[str]) -> list[Message]:
    topics = [
        DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])
        for name in names
    ]
    return [DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS)]


def _create(names: list[str]) -> list[Message]:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=-1) for name in names]
    return [CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS, validate_only=True)]


def _grow(names: list[str]) -> list[Message]:
    topics = [CreatePartitionsTopic(name=name, count=1) for name in names]
    return [CreatePartitionsRequest(topics=topics, timeout_ms=TIMEOUT_MS, validate_only=True)]


def _describe_configs(kind: int) -> Probe:
    def probe(names: list[str]) -> list[Message]:
        resources = [
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[])
            for name in names
        ]
        return [DescribeConfigsRequest(resources=resources)]

    return probe


def _alter_nothing(kind: int) -> Probe:
    def probe(names: list[str]) -> list[Message]:
        resources = [
            IncrementalAlterConfigsAlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
            for name in names
        ]
        return [IncrementalAlterConfigsRequest(resources=resources, validate_only=True)]

    return probe


def _of_all_brokers(probe: Probe) -> Probe:
    """Probe the cluster-wide broker defaults, which have an empty name."""
    return lambda names: probe([""])


def _list_moves(names: list[str]) -> list[Message]:
    return [ListPartitionReassignmentsRequest(topics=[], timeout_ms=TIMEOUT_MS)]


def _move_nothing(names: list[str]) -> list[Message]:
    return [AlterPartitionReassignmentsRequest(topics=[], timeout_ms=TIMEOUT_MS)]


def _heartbeats(names: list[str]) -> list[Message]:
    """Heartbeats with an empty member id."""
    return [HeartbeatRequest(group_id=name, generation_id=-1, member_id="") for name in names]


def _describe_groups(names: list[str]) -> list[Message]:
    return [DescribeGroupsRequest(groups=names)]


def _delete_no_offsets(names: list[str]) -> list[Message]:
    return [OffsetDeleteRequest(group_id=name, topics=[]) for name in names]


def _describe_transactions(names: list[str]) -> list[Message]:
    return [DescribeTransactionsRequest(transactional_ids=names)]


def _end_nothing(names: list[str]) -> list[Message]:
    return [
        EndTxnRequest(transactional_id=name, producer_id=NOBODY, producer_epoch=NOBODY, committed=False)
        for name in names
    ]


_PROBES: dict[tuple[ResourceType, Operation], Probe] = {
    (ResourceType.TOPIC, Operation.READ): _fetch,
    (ResourceType.TOPIC, Operation.WRITE): _produce,
    (ResourceType.TOPIC, Operation.CREATE): _create,
    (ResourceType.TOPIC, Operation.DELETE): _delete_nothing,
    (ResourceType.TOPIC, Operation.ALTER): _grow,
    (ResourceType.TOPIC, Operation.DESCRIBE_CONFIGS): _describe_configs(TOPIC),
    (ResourceType.TOPIC, Operation.ALTER_CONFIGS): _alter_nothing(TOPIC),
    (ResourceType.GROUP, Operation.DESCRIBE): _describe_groups,
    (ResourceType.GROUP, Operation.READ): _heartbeats,
    (ResourceType.GROUP, Operation.DELETE): _delete_no_offsets,
    (ResourceType.GROUP, Operation.DESCRIBE_CONFIGS): _describe_configs(GROUP),
    (ResourceType.GROUP, Operation.ALTER_CONFIGS): _alter_nothing(GROUP),
    (ResourceType.CLUSTER, Operation.DESCRIBE): _list_moves,
    (ResourceType.CLUSTER, Operation.ALTER): _move_nothing,
    (ResourceType.CLUSTER, Operation.DESCRIBE_CONFIGS): _of_all_brokers(_describe_configs(BROKER)),
    (ResourceType.CLUSTER, Operation.ALTER_CONFIGS): _of_all_brokers(_alter_nothing(BROKER)),
    (ResourceType.TRANSACTIONAL_ID, Operation.DESCRIBE): _describe_transactions,
    (ResourceType.TRANSACTIONAL_ID, Operation.WRITE): _end_nothing,
}
