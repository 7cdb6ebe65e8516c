"""Rights of a user as the brokers report them, without a copy of ACLs, super users or group rules.

Metadata reports authorized operations of the cluster and of existing topics (KIP-430). For everything else a request
without side effects is sent (`probes`): a broker checks authorization before it looks up the resource.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.client.access import probes
from barnabas.client.cluster import Client
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from barnabas.security.authz import CLUSTER_NAME, DENIED, Operation, ResourceType

_WITHOUT_DESCRIBE = frozenset({Operation.CREATE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS})


async def allowed_names(
    client: Client, operation: Operation, resource_type: ResourceType, names: Iterable[str]
) -> set[str]:
    """Those of the names with which the client's user may do this."""
    wanted = sorted(set(names))
    if not wanted:
        return set()
    if resource_type is ResourceType.CLUSTER:
        return {CLUSTER_NAME} if await may_do_with_cluster(client, operation) else set()
    if resource_type is ResourceType.TOPIC:
        return await allowed_topics(client, operation, wanted)
    return await _probe(client, operation, resource_type, wanted)


async def may_do_with_cluster(client: Client, operation: Operation) -> bool:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    response: DescribeClusterResponse = await client.send_to_any(request)
    if _has(response.cluster_authorized_operations, operation):
        return True
    # Without DESCRIBE on the cluster, brokers do not report authorized operations.
    return bool(await _probe(client, operation, ResourceType.CLUSTER, [CLUSTER_NAME]))


async def allowed_topics(client: Client, operation: Operation, topics: Iterable[str]) -> set[str]:
    """Those of the names with which the client's user may do this."""
    wanted = sorted(set(topics))
    if not wanted:
        return set()
    if operation is Operation.CREATE and await may_do_with_cluster(client, operation):
        return set(wanted)
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in wanted],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    response: MetadataResponse = await client.send_to_any(request)
    allowed, unknown, silent = set(), set(), set()
    for topic in response.topics:
        name = topic.name or ""
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            unknown.add(name)
        elif topic.error_code:
            silent.add(name)
        elif _has(topic.topic_authorized_operations, operation):
            allowed.add(name)
    if operation is Operation.DESCRIBE:
        return allowed | unknown  # a denied user gets an authorization error, not UNKNOWN_TOPIC
    # Operations that do not imply DESCRIBE may be allowed without it.
    untold = unknown | (silent if operation in _WITHOUT_DESCRIBE else set())
    return allowed | await _probe(client, operation, ResourceType.TOPIC, sorted(untold))


def _has(bits: int, operation: Operation) -> bool:
    return bits >= 0 and bool(bits & (1 << operation))


async def _probe(
    client: Client, operation: Operation, resource_type: ResourceType, names: list[str]
) -> set[str]:
    """Names for which a broker accepts a request that requires the right."""
    if not names:
        return set()
    denied = DENIED[resource_type]
    connection = await client.any_connection()
    allowed: set[str] = set()
    for message in probes.messages(operation, resource_type, names):
        version = probes.version(message, connection.version_for(type(message)))
        response = await connection.send(message, version)
        allowed |= {name for name, code in probes.codes(message, response) if code != denied}
    return allowed
