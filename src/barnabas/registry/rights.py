"""What a user may do with topics, as brokers themselves say it: no copy of their ACLs, super users or group rules.

A topic that exists says so in its metadata (KIP-430). Subjects may also be named after what is no topic: then a request
that changes nothing is sent, and a broker looks at the right before it looks for the topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from barnabas.client.cluster import Client
from barnabas.client.fetching import NO_SESSION, NO_SESSION_EPOCH
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.schema import Message
from barnabas.security.authorizer import Operation

TOPIC, BROKER = 2, 4  # resource types of the configuration APIs
LAST_BY_NAME = {FetchRequest: 12, ProduceRequest: 12}  # versions that say the name of a topic, not its id
TIMEOUT_MS = 5_000

_DENIED = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})


async def may_do_with_cluster(client: Client, operation: Operation) -> bool:
    """DESCRIBE_CONFIGS or ALTER_CONFIGS: asked of the defaults of all brokers, with a request that changes nothing."""
    if operation is Operation.ALTER_CONFIGS:
        alter = IncrementalAlterConfigsAlterConfigsResource(
            resource_type=BROKER, resource_name="", configs=[]
        )
        message: Message = IncrementalAlterConfigsRequest(resources=[alter], validate_only=True)
    else:
        read = DescribeConfigsResource(resource_type=BROKER, resource_name="", configuration_keys=[])
        message = DescribeConfigsRequest(resources=[read])
    response = await client.send_to_any(message)
    return not any(code in _DENIED for _, code in _codes(response))


async def allowed_topics(client: Client, operation: Operation, topics: Iterable[str]) -> set[str]:
    """Those of the names with which the client's user may do this."""
    wanted = sorted(set(topics))
    if not wanted:
        return set()
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in wanted],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    response: MetadataResponse = await client.send_to_any(request)
    allowed, unknown = set(), []
    for topic in response.topics:
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic.name:
            unknown.append(topic.name)
        elif not topic.error_code and topic.name and _has(topic.topic_authorized_operations, operation):
            allowed.add(topic.name)
    return allowed | await _probe(client, operation, unknown)


def _has(bits: int, operation: Operation) -> bool:
    return bits >= 0 and bool(bits & (1 << operation))


async def _probe(client: Client, operation: Operation, names: list[str]) -> set[str]:
    """The names for which a broker does not refuse a request that needs the right, but says that there is no topic."""
    if not names:
        return set()
    message = _PROBES[operation](names)
    connection = await client.any_connection()
    version = connection.version_for(type(message))
    version = min(version, LAST_BY_NAME.get(type(message), version))
    response = await connection.send(message, version)
    denied = {name for name, code in _codes(response) if code in _DENIED}
    return {name for name, _ in _codes(response)} - denied


def _codes(response: Any) -> list[tuple[str, int]]:
    """(topic, error code), wherever this answer has them."""
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


def _fetch(names: list[str]) -> Message:
    topics = [
        FetchTopic(
            topic=name, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)]
        )
        for name in names
    ]
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, session_id=NO_SESSION, session_epoch=NO_SESSION_EPOCH, topics=topics
    )


def _produce(names: list[str]) -> Message:
    topics = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=b"")])
        for name in names
    ]
    return ProduceRequest(acks=1, timeout_ms=TIMEOUT_MS, topic_data=topics)


def _delete_nothing(names: list[str]) -> Message:
    topics = [
        DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])
        for name in names
    ]
    return DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS)


def _describe_configs(names: list[str]) -> Message:
    resources = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=[])
        for name in names
    ]
    return DescribeConfigsRequest(resources=resources)


def _alter_nothing(names: list[str]) -> Message:
    resources = [
        IncrementalAlterConfigsAlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[])
        for name in names
    ]
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=True)


_PROBES = {
    Operation.READ: _fetch,
    Operation.WRITE: _produce,
    Operation.DELETE: _delete_nothing,
    Operation.DESCRIBE_CONFIGS: _describe_configs,
    Operation.ALTER_CONFIGS: _alter_nothing,
}
