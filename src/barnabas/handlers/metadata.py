"""Metadata, versions 0 to 13: brokers, topics and partitions.

- All topics: a null list, in version 0 an empty one. Since version 1 an empty list means no topics.
- Unknown topics are created when the broker (`auto.create.topics.enable`) and, since version 4, the client
  allow it. The response waits for that, so that a client need not retry.
- Since version 10 responses have topic ids, since version 12 requests may use them.
- Version 0 omits offline replicas; versions up to 5 do not have LISTENER_NOT_FOUND.
"""

from __future__ import annotations

from collections.abc import Container, Coroutine, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from barnabas.cluster import topic_name_error
from barnabas.cluster.image import NO_LEADER, MetadataImage, PartitionState, TopicState
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import ZERO_UUID
from barnabas.controller import NewTopic, internal_topic
from barnabas.handlers.endpoints import ALL_OF_CLUSTER, ALL_OF_TOPIC, NOT_ASKED_FOR, endpoints_for
from barnabas.handlers.forwarding import ForwardingNeeds, create_topics
from barnabas.handlers.needs import HasConfig, HasReplicas, IsMember
from barnabas.network.requests import Result, run_or_continue_in_slices
from barnabas.protocol.internal_topics import INTERNAL_TOPICS
from barnabas.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.network.requests import Request

_Refusals = dict[str, ErrorCode]

STEP = 500
"""Partitions described without yielding: one or two milliseconds."""


class MetadataView(HasReplicas, IsMember, Protocol):
    """Broker attributes that determine the view of partitions."""


class MetadataNeeds(ForwardingNeeds, HasConfig, MetadataView, Protocol):
    """Broker attributes used by Metadata."""


def metadata(broker: MetadataNeeds, request: Request, message: MetadataRequest) -> Result[MetadataResponse]:
    if message.topics and not _is_well_formed(message.topics, request.version):
        return _all_refused(message.topics)
    if missing := _topics_to_create(broker, message):
        return _create_and_answer(broker, request, message, missing)
    return _answer(broker, request, message, {})


def _is_well_formed(topics: Sequence[MetadataRequestTopic], version: int) -> bool:
    if version < 12:
        return all(topic.topic_id == ZERO_UUID and topic.name is not None for topic in topics)
    return all(topic.topic_id != ZERO_UUID or topic.name is not None for topic in topics)


def _all_refused(topics: Iterable[MetadataRequestTopic]) -> MetadataResponse:
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id
            )
            for topic in topics
        ]
    )


# -- auto-created topics -------------------------------------------------------------------------------


def _topics_to_create(broker: MetadataNeeds, message: MetadataRequest) -> list[str]:
    if not (
        message.topics and message.allow_auto_topic_creation and broker.config["auto.create.topics.enable"]
    ):
        return []
    names = {topic.name: None for topic in message.topics if topic.name is not None}
    return [name for name in names if name not in broker.image.topics and not topic_name_error(name)]


async def _create_and_answer(
    broker: MetadataNeeds, request: Request, message: MetadataRequest, missing: list[str]
) -> MetadataResponse | None:
    wanted = [
        internal_topic(broker.config, broker.image, name, is_alone=broker.is_alone) or NewTopic(name)
        for name in missing
    ]
    refusals: _Refusals = {}
    try:
        results = await create_topics(broker, wanted, request.context)
    except KafkaError:
        pass  # the topics stay unknown, and the client retries
    else:
        refusals = _refusals(results)
    answer = _answer(broker, request, message, refusals)
    return await answer if isinstance(answer, Coroutine) else answer


def _refusals(results: dict[str, KafkaError | None]) -> _Refusals:
    """Errors of topics that were not created, except those created by a concurrent request."""
    return {
        name: error.code
        for name, error in results.items()
        if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS
    }


# -- the response --------------------------------------------------------------------------------------


def _answer(
    broker: MetadataNeeds, request: Request, message: MetadataRequest, refusals: _Refusals
) -> Result[MetadataResponse]:
    return run_or_continue_in_slices(request, _answering(broker, request, message, refusals))


def _answering(
    broker: MetadataNeeds, request: Request, message: MetadataRequest, refusals: _Refusals
) -> Generator[None, None, MetadataResponse]:
    image = broker.image
    endpoints = endpoints_for(broker, request.connection)
    view = view_of(broker, [broker_id for broker_id, *_ in endpoints], request.version)
    view.operations = ALL_OF_TOPIC if message.include_topic_authorized_operations else NOT_ASKED_FOR
    topics: list[MetadataResponseTopic] = []
    if message.topics is None or (request.version == 0 and not message.topics):
        for known in list(image.topics.values()):
            described = yield from _describing(view, known)
            topics.append(described)
    else:  # each topic once, even if it was named repeatedly
        for requested in {(topic.topic_id, topic.name): topic for topic in message.topics}.values():
            described = yield from _one(view, requested, refusals)
            topics.append(described)
    return MetadataResponse(
        brokers=[MetadataResponseBroker(*endpoint) for endpoint in endpoints],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            ALL_OF_CLUSTER if message.include_cluster_authorized_operations else NOT_ASKED_FOR
        ),
    )


def _one(
    view: PartitionView, requested: MetadataRequestTopic, refusals: _Refusals
) -> Generator[None, None, MetadataResponseTopic]:
    if requested.topic_id != ZERO_UUID:
        topic = view.image.topic_by_id(requested.topic_id)
        if topic is not None:
            return (yield from _describing(view, topic))
        return MetadataResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=requested.topic_id
        )
    name = requested.name or ""
    topic = view.image.topics.get(name)
    if topic is not None:
        return (yield from _describing(view, topic))
    return MetadataResponseTopic(
        error_code=refusals.get(name, unknown_topic_error(name)),
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=view.operations,
    )


def _describing(view: PartitionView, topic: TopicState) -> Generator[None, None, MetadataResponseTopic]:
    """Describe a topic; yields to the loop after every few hundred partitions of all topics."""
    partitions: list[MetadataResponsePartition] = []
    for first in range(0, len(topic.partitions), STEP):
        some = topic.partitions[first : first + STEP]
        partitions += [
            view.at(topic.name, index).describe(index, partition)
            for index, partition in enumerate(some, first)
        ]
        view.described += len(some)
        if view.described >= STEP:
            view.described = 0
            yield
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=view.operations,
    )


def unknown_topic_error(name: str) -> ErrorCode:
    """Return the error of an unknown topic: invalid name, or unknown."""
    if topic_name_error(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def view_of(broker: MetadataView, reachable: Iterable[int], version: int) -> PartitionView:
    """Return the view of a client that can reach these brokers, in this version of Metadata."""
    image, brokers = broker.image, frozenset(reachable)
    failed = frozenset([broker.node_id])
    view = PartitionView(image, brokers, version)
    view.behind_failed_disks = broker.replicas.offline
    view.without_this_broker = PartitionView(image, brokers - failed, version, failed)
    return view


class PartitionView:
    """View of partitions for a client: reachable brokers, version, and brokers with failed disks.

    A partition whose log dir has failed on this broker has no leader here, whatever the image says: otherwise
    a client would retry here indefinitely.
    """

    def __init__(
        self,
        image: MetadataImage,
        reachable: frozenset[int],
        version: int,
        failed: frozenset[int] = frozenset(),
    ) -> None:
        self.image = image
        self.operations = NOT_ASKED_FOR
        self.described = 0  # partitions described since the last yield
        self.behind_failed_disks: Container[tuple[str, int]] = ()
        self.without_this_broker = self
        self._reachable = reachable
        self._version = version
        self._failed = failed

    def at(self, topic: str, index: int) -> PartitionView:
        """Return the view for one partition."""
        if self.behind_failed_disks and (topic, index) in self.behind_failed_disks:
            return self.without_this_broker
        return self

    def describe(self, index: int, partition: PartitionState) -> MetadataResponsePartition:
        return MetadataResponsePartition(
            error_code=self._error(partition),
            partition_index=index,
            leader_id=self.leader(partition),
            leader_epoch=partition.leader_epoch,
            replica_nodes=self._shown(partition.replicas),
            isr_nodes=self._shown(partition.isr),
            offline_replicas=self.offline(partition),
        )

    def leader(self, partition: PartitionState) -> int:
        return partition.leader if partition.leader in self._reachable else NO_LEADER

    def leader_error(self, partition: PartitionState) -> ErrorCode:
        if partition.leader in self._reachable:
            return ErrorCode.NONE
        hidden = partition.leader not in self._failed and self.image.can_lead(partition.leader)
        if hidden and self._version > 5:
            return ErrorCode.LISTENER_NOT_FOUND
        return ErrorCode.LEADER_NOT_AVAILABLE

    def offline(self, partition: PartitionState) -> list[int]:
        return [broker_id for broker_id in partition.replicas if broker_id not in self._reachable]

    def _error(self, partition: PartitionState) -> ErrorCode:
        error = self.leader_error(partition)
        if error is ErrorCode.NONE and self._version == 0 and self.offline(partition):
            return ErrorCode.REPLICA_NOT_AVAILABLE
        return error

    def _shown(self, brokers: tuple[int, ...]) -> list[int]:
        if self._version == 0:
            return [broker_id for broker_id in brokers if broker_id in self._reachable]
        return list(brokers)
