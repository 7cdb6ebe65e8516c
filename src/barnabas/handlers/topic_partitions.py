"""DescribeTopicPartitions, version 0: topics by name, page by page, with their ELR (KIP-966).

- No topics named means all. Results are in the order of the names.
- A page ends after `response_partition_limit` partitions (at least one, at most
  `max.request.partition.size.limit`); the cursor in the response is the start of the next one.
- The topic of a cursor must be among those that are named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from barnabas.cluster.image import PartitionState
from barnabas.common.errors import ErrorCode
from barnabas.handlers.endpoints import ALL_OF_TOPIC, endpoints_for
from barnabas.handlers.metadata import MetadataView, PartitionView, unknown_topic_error, view_of
from barnabas.handlers.needs import HasConfig
from barnabas.protocol.internal_topics import INTERNAL_TOPICS
from barnabas.protocol.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.network.requests import Request

NEWEST_METADATA = 13
"""Version of Metadata that determines the view of partitions: the newest."""


class TopicPartitionsNeeds(HasConfig, MetadataView, Protocol):
    """Broker attributes used by DescribeTopicPartitions."""


def describe_topic_partitions(
    broker: TopicPartitionsNeeds, request: Request, message: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    named = {topic.name for topic in message.topics}
    cursor = message.cursor or Cursor("", 0)
    if cursor.partition_index < 0 or (named and message.cursor and cursor.topic_name not in named):
        return _all_refused(message)
    limit = min(message.response_partition_limit, broker.config["max.request.partition.size.limit"])
    reachable = [broker_id for broker_id, *_ in endpoints_for(broker, request.connection)]
    page = _Page(view_of(broker, reachable, NEWEST_METADATA), max(1, limit))
    for name in sorted(named or broker.image.topics):
        if name >= cursor.topic_name:
            page.add(name, cursor.partition_index if name == cursor.topic_name else 0)
        if page.next_cursor is not None:
            break
    return DescribeTopicPartitionsResponse(topics=page.topics, next_cursor=page.next_cursor)


def _all_refused(message: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name)
            for topic in message.topics
        ]
    )


class _Page:
    """A response that grows until it is full; then `next_cursor` is the first that did not fit."""

    def __init__(self, view: PartitionView, limit: int) -> None:
        self.topics: list[DescribeTopicPartitionsResponseTopic] = []
        self.next_cursor: Cursor | None = None
        self._view = view
        self._room = limit

    def add(self, name: str, first: int) -> None:
        topic = self._view.image.topics.get(name)
        if topic is None:
            self.topics.append(_unknown(name))
            return
        if self._room == 0:
            self.next_cursor = Cursor(name, first)
            return
        shown = topic.partitions[first : first + self._room]
        self._room -= len(shown)
        self.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.topic_id,
                is_internal=name in INTERNAL_TOPICS,
                partitions=[
                    _describe(self._view.at(name, index), index, state)
                    for index, state in enumerate(shown, first)
                ],
                topic_authorized_operations=ALL_OF_TOPIC,
            )
        )
        if first + len(shown) < len(topic.partitions):
            self.next_cursor = Cursor(name, first + len(shown))


def _describe(
    view: PartitionView, index: int, partition: PartitionState
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=view.leader_error(partition),
        partition_index=index,
        leader_id=view.leader(partition),
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=view.offline(partition),
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=unknown_topic_error(name),
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=ALL_OF_TOPIC,
    )
