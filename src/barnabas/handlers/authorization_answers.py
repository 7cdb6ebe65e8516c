"""Filters of responses for clients with limited permissions, and denials with a special shape.

The table in `authorization` assigns them to APIs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.handlers.endpoints import NOT_ASKED_FOR
from barnabas.handlers.fetch.reader import AuthorizedReader
from barnabas.network.requests import error_response
from barnabas.network.requests.request_parts import with_value
from barnabas.protocol.api import response_class
from barnabas.protocol.messages.cluster import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from barnabas.protocol.messages.metadata import TopicRequest
from barnabas.protocol.messages.share import ForgottenTopic
from barnabas.protocol.schema import Message
from barnabas.security.authz import CLUSTER_NAME, Access, Action, Operation, ResourceType
from barnabas.security.authz.acls import OF_CLUSTER, OF_GROUP, OF_TOPIC
from barnabas.share import SessionKey, ShareSession

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
DENIED_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNKNOWN_OFFSET = -1
NO_ID = bytes(16)
NULL_PROTOCOL_SINCE = 7  # of JoinGroup


def _describes(access: Access, topic: str) -> bool:
    return access.allows(Action(Operation.DESCRIBE, TOPIC, topic))


# -- topics ---------------------------------------------------------------------------------------------


def authorized_topics(access: Access, broker: Any, message: Any, response: Any) -> None:
    """Metadata of all topics omits those that the client may not describe."""
    if not message.topics:
        response.topics = [topic for topic in response.topics if _describes(access, topic.name)]


def described_mirrors(access: Access, broker: Any, message: Any, response: Any) -> None:
    """DescribeMirrors of all topics omits those that the client may not describe."""
    if message.topics is None:
        response.topics = [topic for topic in response.topics if _describes(access, topic.name)]


def allowed_topics_of_all(access: Access, broker: Any, message: Any) -> Any:
    """DescribeTopicPartitions without names returns the topics that the client may describe."""
    if message.topics:
        return message
    allowed = [TopicRequest(name) for name in broker.image.topics if _describes(access, name)]
    return with_value(message, "topics", allowed) if allowed else None


def shown_topic_operations(access: Access, broker: Any, message: Any, response: Any) -> None:
    for topic in response.topics:
        if topic.topic_authorized_operations != NOT_ASKED_FOR and topic.name:
            topic.topic_authorized_operations = access.operations(OF_TOPIC, TOPIC, topic.name)


def shown_cluster_operations(access: Access, broker: Any, message: Any, response: Any) -> None:
    """A client that may not describe the cluster gets no operations."""
    if response.cluster_authorized_operations != NOT_ASKED_FOR:
        may_see = access.allows(Action(Operation.DESCRIBE, CLUSTER))
        response.cluster_authorized_operations = (
            access.operations(OF_CLUSTER, CLUSTER, CLUSTER_NAME) if may_see else 0
        )


def visible_configs(access: Access, broker: Any, message: Any, response: Any) -> None:
    """CreateTopics returns the configs of a topic to clients that may describe them (KIP-525)."""
    for topic in response.topics:
        if not topic.error_code and not access.allows(Action(Operation.DESCRIBE_CONFIGS, TOPIC, topic.name)):
            topic.topic_config_error_code = DENIED_TOPIC
            topic.num_partitions = topic.replication_factor = -1
            topic.configs = []


def reads_by_topic(access: Access) -> Mapping[str, Any]:
    return {"reader": partial(AuthorizedReader, access)}


def forget_denied_topics(access: Access, broker: Any, message: Any) -> Any:
    """A share session that was opened with more permissions continues without the denied topics."""
    try:
        session: ShareSession = broker.coordinators.share_partitions.sessions.find(
            SessionKey(message.group_id, message.member_id)
        )
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


def sees_topics(access: Access) -> Mapping[str, Any]:
    """Patterns of a group match topics that the requesting client may describe."""
    return {"may_describe": partial(_describes, access)}


def creates_internal_topics(access: Access) -> Mapping[str, Any]:
    """A streams group creates its internal topics as the member whose heartbeat finds them missing."""
    of_cluster = Action(Operation.CREATE, CLUSTER)
    return {"may_create": lambda name: access.allows_any((of_cluster, Action(Operation.CREATE, TOPIC, name)))}


def listed_groups(access: Access, broker: Any, message: Any, response: Any) -> None:
    """Clients that may describe the cluster see all groups, others those that they may describe."""
    if not access.allows(Action(Operation.DESCRIBE, CLUSTER)):
        response.groups = [
            group
            for group in response.groups
            if access.allows(Action(Operation.DESCRIBE, GROUP, group.group_id))
        ]


def shown_group_operations(access: Access, broker: Any, message: Any, response: Any) -> None:
    for group in response.groups:
        if group.authorized_operations != NOT_ASKED_FOR:
            group.authorized_operations = access.operations(OF_GROUP, GROUP, group.group_id)


def described_groups_show_topics(access: Access, broker: Any, message: Any, response: Any) -> None:
    """A group with a topic that the client may not describe is not described."""
    for group in response.groups:
        if not all(_describes(access, topic) for topic in set(_topics_of(group))):
            group.error_code = DENIED_TOPIC
            group.error_message = (
                "The group has described topic(s) that the client is not authorized to describe."
            )
            group.members = []
            if hasattr(group, "topology"):
                group.topology = None


def _topics_of(group: Any) -> Iterator[str]:
    for member in group.members:
        yield from getattr(member, "subscribed_topic_names", ())
        for assignment in (member.assignment, getattr(member, "target_assignment", None)):
            for partitions in getattr(assignment, "topic_partitions", ()):
                yield partitions.topic_name
    yield from topics_of_topology(group)


def topics_of_topology(described: Any) -> Iterator[str]:
    """Yield every topic of the topology of a streams group."""
    topology = getattr(described, "topology", None)
    for part in (topology.subtopologies or ()) if topology is not None else ():
        yield from (*part.source_topics, *part.repartition_sink_topics)
        for info in (*part.repartition_source_topics, *part.state_changelog_topics):
            yield info.name


def offsets_of_topics(access: Access, broker: Any, message: Any, response: Any) -> None:
    """OffsetFetch: named topics are denied; of all topics, those that may be described are returned."""
    if response.groups:
        asks_for_all = {group.group_id for group in message.groups if group.topics is None}
        for group in response.groups:
            group.topics = list(_offsets_of(access, broker, group.topics, group.group_id in asks_for_all))
    else:
        response.topics = list(_offsets_of(access, broker, response.topics, message.topics is None))


def _offsets_of(access: Access, broker: Any, topics: Iterable[Any], is_all: bool) -> Iterator[Any]:
    for topic in topics:
        name = topic.name or broker.image.topic_names_by_id.get(getattr(topic, "topic_id", None))
        is_denied = name is not None and not _describes(access, name)
        if is_denied and is_all:
            continue
        for partition in topic.partitions if is_denied else ():
            partition.error_code = DENIED_TOPIC
            partition.committed_offset = partition.committed_leader_epoch = UNKNOWN_OFFSET
            partition.metadata = ""
        yield topic


def authorized_groups(access: Access, broker: Any, message: Any, response: Any) -> None:
    """Filter DescribeShareGroupOffsets as `offsets_of_topics` does."""
    asks_for_all = {group.group_id for group in message.groups if group.topics is None}
    for group in response.groups:
        if group.group_id in asks_for_all:
            group.topics = [topic for topic in group.topics if _describes(access, topic.topic_name)]
        for topic in group.topics:
            if not _describes(access, topic.topic_name):
                topic.topic_id = NO_ID
                for partition in topic.partitions:
                    partition.error_code = DENIED_TOPIC
                    partition.start_offset = partition.lag = UNKNOWN_OFFSET


# -- transactions ---------------------------------------------------------------------------------------


def topics_of_transactions(access: Access, broker: Any, message: Any, response: Any) -> None:
    for state in response.transaction_states:
        state.topics = [topic for topic in state.topics if _describes(access, topic.topic)]


def listed_transactions(access: Access, broker: Any, message: Any, response: Any) -> None:
    response.transaction_states = [
        state
        for state in response.transaction_states
        if access.allows(Action(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, state.transactional_id))
    ]


# -- denials --------------------------------------------------------------------------------------------


def only_at_the_top(message: Message, version: int, error: ErrorCode) -> Message:
    """Build a response without elements; in versions without an error it is empty."""
    response: Any = response_class(message.api_key)()
    response.error_code = error
    return response  # type: ignore[no-any-return]


def fetch_denied(message: Message, version: int, error: ErrorCode) -> Message:
    """Deny a replica's fetch with an error for each partition."""
    response: Any = error_response(message, DENIED_TOPIC, version)
    response.error_code = ErrorCode.NONE
    return response  # type: ignore[no-any-return]


def join_denied(message: Message, version: int, error: ErrorCode) -> Message:
    """Deny a join; the protocol is null in versions that allow it."""
    response: Any = only_at_the_top(message, version, error)
    response.protocol_name = None if version >= NULL_PROTOCOL_SINCE else ""
    return response  # type: ignore[no-any-return]


def log_dirs_denied(message: Any, version: int, error: ErrorCode) -> Message:
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
