"""Filters of responses for clients with limited permissions, and denials with a special shape.

The table in `authorization` assigns them to APIs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.handlers.endpoints import NOT_ASKED_FOR
from barnabas.handlers.needs import HasImage
from barnabas.handlers.share.requests import ShareNeeds
from barnabas.network.requests import error_response
from barnabas.network.requests.request_parts import with_value
from barnabas.protocol.api import response_class
from barnabas.protocol.messages.cluster import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    DescribeClusterResponse,
)
from barnabas.protocol.messages.groups import DescribeGroupsResponse, JoinGroupResponse, ListGroupsResponse
from barnabas.protocol.messages.metadata import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    MetadataRequest,
    MetadataResponse,
    TopicRequest,
)
from barnabas.protocol.messages.share import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    ForgottenTopic,
    ShareFetchRequest,
    ShareGroupDescribeResponse,
)
from barnabas.security.authz import CLUSTER_NAME, Access, Action, Operation, ResourceType
from barnabas.security.authz.acls import OF_CLUSTER, OF_GROUP, OF_TOPIC
from barnabas.share import SessionKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from barnabas.protocol.messages import consumer, share, streams
    from barnabas.protocol.messages.consumer import ConsumerGroupDescribeResponse
    from barnabas.protocol.messages.mirror import DescribeMirrorsRequest, DescribeMirrorsResponse
    from barnabas.protocol.messages.offsets import (
        OffsetFetchRequest,
        OffsetFetchResponse,
        OffsetFetchResponseTopic,
        OffsetFetchResponseTopics,
    )
    from barnabas.protocol.messages.streams import StreamsGroupDescribeResponse
    from barnabas.protocol.messages.topics import CreateTopicsResponse
    from barnabas.protocol.messages.transactions import DescribeTransactionsResponse, ListTransactionsResponse
    from barnabas.protocol.schema import Message

    GroupsResponse = ConsumerGroupDescribeResponse | ShareGroupDescribeResponse | StreamsGroupDescribeResponse
    DescribedGroup = consumer.DescribedGroup | share.DescribedGroup | streams.DescribedGroup
    T = TypeVar("T", OffsetFetchResponseTopic, OffsetFetchResponseTopics)

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
DENIED_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNKNOWN_OFFSET = -1
NO_ID = bytes(16)
NULL_PROTOCOL_SINCE = 7  # of JoinGroup
ERROR_CODE = "error_code"


# -- topics ---------------------------------------------------------------------------------------------


def authorized_topics(
    access: Access, broker: object, message: MetadataRequest, response: MetadataResponse
) -> None:
    """Metadata of all topics omits those that the client may not describe."""
    if not message.topics:
        response.topics = [topic for topic in response.topics if access.may_describe(topic.name or "")]


def described_mirrors(
    access: Access, broker: object, message: DescribeMirrorsRequest, response: DescribeMirrorsResponse
) -> None:
    """DescribeMirrors of all topics omits those that the client may not describe."""
    if message.topics is None:
        response.topics = [topic for topic in response.topics if access.may_describe(topic.name)]


def allowed_topics_of_all(
    access: Access, broker: HasImage, message: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsRequest | None:
    """DescribeTopicPartitions without names returns the topics that the client may describe."""
    if message.topics:
        return message
    allowed = [TopicRequest(name) for name in broker.image.topics if access.may_describe(name)]
    return with_value(message, "topics", allowed) if allowed else None


def shown_topic_operations(
    access: Access,
    broker: object,
    message: object,
    response: MetadataResponse | DescribeTopicPartitionsResponse,
) -> None:
    for topic in response.topics:
        if topic.topic_authorized_operations != NOT_ASKED_FOR and topic.name:
            topic.topic_authorized_operations = access.operations(OF_TOPIC, TOPIC, topic.name)


def shown_cluster_operations(
    access: Access, broker: object, message: object, response: MetadataResponse | DescribeClusterResponse
) -> None:
    """A client that may not describe the cluster gets no operations."""
    if response.cluster_authorized_operations != NOT_ASKED_FOR:
        may_see = access.allows(Action(Operation.DESCRIBE, CLUSTER))
        response.cluster_authorized_operations = (
            access.operations(OF_CLUSTER, CLUSTER, CLUSTER_NAME) if may_see else 0
        )


def visible_configs(access: Access, broker: object, message: object, response: CreateTopicsResponse) -> None:
    """CreateTopics returns the configs of a topic to clients that may describe them (KIP-525)."""
    for topic in response.topics:
        if not topic.error_code and not access.allows(Action(Operation.DESCRIBE_CONFIGS, TOPIC, topic.name)):
            topic.topic_config_error_code = DENIED_TOPIC
            topic.num_partitions = topic.replication_factor = -1
            topic.configs = []


def forget_denied_topics(access: Access, broker: ShareNeeds, message: ShareFetchRequest) -> ShareFetchRequest:
    """A share session that was opened with more permissions continues without the denied topics."""
    try:
        key = SessionKey(message.group_id or "", message.member_id or "")
        session = broker.coordinators.share_partitions.sessions.find(key)
    except KafkaError:
        return message
    names = broker.image.topic_names_by_id
    denied = [
        ForgottenTopic(tp.topic_id, [tp.partition])
        for tp in session.partitions
        if (name := names.get(tp.topic_id)) is not None
        and not access.allows(Action(Operation.READ, TOPIC, name))
    ]
    return with_value(message, "forgotten_topics_data", [*message.forgotten_topics_data, *denied])


# -- groups and their offsets ---------------------------------------------------------------------------


def listed_groups(access: Access, broker: object, message: object, response: ListGroupsResponse) -> None:
    """Clients that may describe the cluster see all groups, others those that they may describe."""
    if not access.allows(Action(Operation.DESCRIBE, CLUSTER)):
        response.groups = [
            group
            for group in response.groups
            if access.allows(Action(Operation.DESCRIBE, GROUP, group.group_id))
        ]


def shown_group_operations(
    access: Access, broker: object, message: object, response: GroupsResponse | DescribeGroupsResponse
) -> None:
    for group in response.groups:
        if group.authorized_operations != NOT_ASKED_FOR:
            group.authorized_operations = access.operations(OF_GROUP, GROUP, group.group_id)


def described_groups_show_topics(
    access: Access, broker: object, message: object, response: GroupsResponse
) -> None:
    """A group with a topic that the client may not describe is not described."""
    for group in response.groups:
        if not all(access.may_describe(topic) for topic in set(_topics_of(group))):
            group.error_code = DENIED_TOPIC
            group.error_message = (
                "The group has described topic(s) that the client is not authorized to describe."
            )
            group.members = []
            if hasattr(group, "topology"):
                group.topology = None


def _topics_of(group: DescribedGroup) -> Iterator[str]:
    for member in group.members:
        yield from getattr(member, "subscribed_topic_names", ())
        for assignment in (member.assignment, getattr(member, "target_assignment", None)):
            for partitions in getattr(assignment, "topic_partitions", ()):
                yield partitions.topic_name
    yield from topics_of_topology(group)


def topics_of_topology(described: object) -> Iterator[str]:
    """Yield every topic of the topology of a streams group."""
    topology = getattr(described, "topology", None)
    for part in (topology.subtopologies or ()) if topology is not None else ():
        yield from (*part.source_topics, *part.repartition_sink_topics)
        for info in (*part.repartition_source_topics, *part.state_changelog_topics):
            yield info.name


def offsets_of_topics(
    access: Access, broker: HasImage, message: OffsetFetchRequest, response: OffsetFetchResponse
) -> None:
    """OffsetFetch: named topics are denied; of all topics, those that may be described are returned."""
    if response.groups:
        asks_for_all = {group.group_id for group in message.groups if group.topics is None}
        for group in response.groups:
            group.topics = list(_offsets_of(access, broker, group.topics, group.group_id in asks_for_all))
    else:
        response.topics = list(_offsets_of(access, broker, response.topics, message.topics is None))


def _offsets_of(access: Access, broker: HasImage, topics: Iterable[T], is_all: bool) -> Iterator[T]:
    for topic in topics:
        name = topic.name or broker.image.topic_names_by_id.get(getattr(topic, "topic_id", b""))
        is_denied = name is not None and not access.may_describe(name)
        if is_denied and is_all:
            continue
        for partition in topic.partitions if is_denied else ():
            partition.error_code = DENIED_TOPIC
            partition.committed_offset = partition.committed_leader_epoch = UNKNOWN_OFFSET
            partition.metadata = ""
        yield topic


def authorized_groups(
    access: Access,
    broker: object,
    message: DescribeShareGroupOffsetsRequest,
    response: DescribeShareGroupOffsetsResponse,
) -> None:
    """Filter DescribeShareGroupOffsets as `offsets_of_topics` does."""
    asks_for_all = {group.group_id for group in message.groups if group.topics is None}
    for group in response.groups:
        if group.group_id in asks_for_all:
            group.topics = [topic for topic in group.topics if access.may_describe(topic.topic_name)]
        for topic in group.topics:
            if not access.may_describe(topic.topic_name):
                topic.topic_id = NO_ID
                for partition in topic.partitions:
                    partition.error_code = DENIED_TOPIC
                    partition.start_offset = partition.lag = UNKNOWN_OFFSET


# -- transactions ---------------------------------------------------------------------------------------


def topics_of_transactions(
    access: Access, broker: object, message: object, response: DescribeTransactionsResponse
) -> None:
    for state in response.transaction_states:
        state.topics = [topic for topic in state.topics if access.may_describe(topic.topic)]


def listed_transactions(
    access: Access, broker: object, message: object, response: ListTransactionsResponse
) -> None:
    response.transaction_states = [
        state
        for state in response.transaction_states
        if access.allows(Action(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, state.transactional_id))
    ]


# -- denials --------------------------------------------------------------------------------------------


def only_at_the_top(message: Message, version: int, error: ErrorCode) -> Message:
    """Build a response without elements; in versions without an error it is empty."""
    response = response_class(message.api_key)()
    setattr(response, ERROR_CODE, error)
    return response


def fetch_denied(message: Message, version: int, error: ErrorCode) -> Message:
    """Deny a replica's fetch with an error for each partition."""
    response = error_response(message, DENIED_TOPIC, version)
    setattr(response, ERROR_CODE, ErrorCode.NONE)
    return response


def join_denied(message: Message, version: int, error: ErrorCode) -> Message:
    """Deny a join; the protocol is null in versions that allow it."""
    return JoinGroupResponse(error_code=error, protocol_name=None if version >= NULL_PROTOCOL_SINCE else "")


def log_dirs_denied(message: AlterReplicaLogDirsRequest, version: int, error: ErrorCode) -> Message:
    """AlterReplicaLogDirs has directories in the request and topics in the response."""
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic.name, [AlterReplicaLogDirPartitionResult(index, error) for index in topic.partitions]
            )
            for log_dir in message.dirs
            for topic in log_dir.topics
        ]
    )
