"""Creating and deleting topics and adding partitions. Each topic of a request succeeds or fails independently.

- CreateTopics, versions 2 to 7. Since version 5 the answer has the topic's number of partitions, its
  replication factor and all its configs, since version 7 its id.
- DeleteTopics, versions 1 to 6. Version 6 takes ids as well as names; since version 5 errors have a text.
- CreatePartitions, versions 0 to 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Protocol

from barnabas.cluster.deltas import PartitionsAdded
from barnabas.cluster.image import MetadataImage
from barnabas.common.cooperative import Steps
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import ZERO_UUID, Uuid
from barnabas.config.describe import describe_topic
from barnabas.controller import CreatedTopic, Decided, MorePartitions, NewTopic
from barnabas.controller import topics as decide
from barnabas.handlers.needs import HasConfig, HasController
from barnabas.network.requests import RequestTurn, Result
from barnabas.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import STEP

if TYPE_CHECKING:
    from barnabas.network.requests import HandlerFunction, Request


CREATED_AT_ONCE = 50
"""Topics, each of which takes up to half a millisecond."""


class TopicsNeeds(HasConfig, HasController, Protocol):
    """Broker attributes used by the topic handlers."""


# -- CreateTopics --------------------------------------------------------------------------------------


async def create_topics(
    broker: TopicsNeeds, request: Request, message: CreateTopicsRequest
) -> CreateTopicsResponse:
    wanted = [_new_topic(topic) for topic in message.topics]
    results: dict[str, CreatedTopic | KafkaError]
    try:
        results = await broker.controller.submit(
            lambda image: decide.create_topics(
                image, wanted, broker.policy, validate_only=message.validate_only
            )
        )
    except KafkaError as error:
        results = {topic.name: error for topic in message.topics}
    shared: _Rows = {}
    return CreateTopicsResponse(
        topics=[_creation_result(broker, name, result, shared) for name, result in results.items()]
    )


def within_bound(create: HandlerFunction) -> HandlerFunction:
    """Apply Kafka's limit on the partitions of a request to the whole request, even if it is served in parts."""

    def handle(broker: TopicsNeeds, request: Request, message: CreateTopicsRequest) -> Result[Message]:
        if len(message.topics) <= CREATED_AT_ONCE:  # the controller checks its only part
            return create(broker, request, message)
        request.is_large = True
        return _create_or_refuse(create, broker, request, message)

    return handle


async def _create_or_refuse(
    create: HandlerFunction, broker: TopicsNeeds, request: Request, message: CreateTopicsRequest
) -> Message | None:
    turn = RequestTurn()
    error = await turn.run(_refusal_of_size(message, broker.policy.num_partitions))
    if error is not None:
        return await turn.run(_refusing(message, error))
    response = create(broker, request, message)
    return await response if isinstance(response, Coroutine) else response


def _refusal_of_size(message: CreateTopicsRequest, default: int) -> Steps[KafkaError | None]:
    """Return the error of a request above the limit. Topics beyond it are not counted: there may be very
    many.
    """
    requested = 0
    for number, topic in enumerate(message.topics, 1):
        partitions = default if topic.num_partitions == decide.DEFAULT else max(topic.num_partitions, 0)
        requested += len(topic.assignments) or partitions
        error = decide.refusal_of_size(requested)
        if error is not None:
            return error
        if not number % STEP:
            yield
    return None


def _refusing(message: CreateTopicsRequest, error: KafkaError) -> Steps[CreateTopicsResponse]:
    response = CreateTopicsResponse()
    named: set[str] = set()
    for number, topic in enumerate(message.topics, 1):
        if topic.name not in named:
            named.add(topic.name)
            response.topics.append(
                CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            )
        if not number % STEP:
            yield
    return response


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(assignment.partition_index, assignment.broker_ids) for assignment in topic.assignments],
        {config.name: config.value for config in topic.configs},
    )


_Rows = dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]]


def _creation_result(
    broker: TopicsNeeds, name: str, result: CreatedTopic | KafkaError, shared: _Rows
) -> CreatableTopicResult:
    if isinstance(result, KafkaError):
        return CreatableTopicResult(name=name, error_code=result.code, error_message=result.message or None)
    return CreatableTopicResult(
        name=name,
        topic_id=result.state.topic_id,
        error_message=None,
        num_partitions=len(result.state.partitions),
        replication_factor=result.replication_factor,
        configs=_configs(broker, result, shared),
    )


def _configs(broker: TopicsNeeds, created: CreatedTopic, shared: _Rows) -> list[CreatableTopicConfigs]:
    """Return all settings of a topic; topics with the same overrides share them."""
    key = tuple(created.configs.items())
    if key not in shared:
        shared[key] = _rows(broker, created)
    return shared[key]


def _rows(broker: TopicsNeeds, created: CreatedTopic) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
        )
        for entry in describe_topic(broker.config, created.configs)
    ]


# -- DeleteTopics --------------------------------------------------------------------------------------


async def delete_topics(
    broker: TopicsNeeds, request: Request, message: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    requested = message.topics or [DeleteTopicState(name=name) for name in message.topic_names]
    if not broker.config["delete.topic.enable"]:
        # Version 3 brought the error code.
        code = ErrorCode.TOPIC_DELETION_DISABLED if request.version >= 3 else ErrorCode.INVALID_REQUEST
        return _answer_all(requested, KafkaError(code, "Topic deletion is disabled."))
    try:
        answers = await broker.controller.submit(lambda image: _delete(image, requested))
    except KafkaError as error:
        return _answer_all(requested, error)
    return DeleteTopicsResponse(responses=answers)


def _delete(
    image: MetadataImage, requested: Sequence[DeleteTopicState]
) -> Decided[list[DeletableTopicResult]]:
    plan = _Deletions(image, requested)
    deltas, _ = decide.delete_topics(image, list(plan.topics))
    done = [_deletion_result(name, topic_id, None) for topic_id, name in plan.topics.items()]
    return deltas, plan.refused + done


class _Deletions:
    """Splits the request into topics to delete (id and name) and results that are certain already."""

    def __init__(self, image: MetadataImage, requested: Sequence[DeleteTopicState]) -> None:
        self.topics: dict[Uuid, str] = {}
        self.refused: list[DeletableTopicResult] = []
        self._image = image
        self._names = Counter(topic.name for topic in requested if topic.topic_id == ZERO_UUID)
        self._ids = Counter(topic.topic_id for topic in requested if topic.name is None)
        for name, topic_id in dict.fromkeys((topic.name, topic.topic_id) for topic in requested):
            self._sort(name, topic_id)

    def _sort(self, name: str | None, topic_id: Uuid) -> None:
        if name is not None and topic_id != ZERO_UUID:
            self._refuse(name, topic_id, "You may not specify both topic name and topic id.")
        elif name is not None:
            self._by_name(name)
        elif topic_id != ZERO_UUID:
            self._by_id(topic_id)
        else:
            self._refuse(None, ZERO_UUID, "Neither topic name nor id were specified.")

    def _by_name(self, name: str) -> None:
        topic = self._image.topics.get(name)
        if self._names[name] > 1:
            self._refuse(name, ZERO_UUID, "Duplicate topic name.")
        elif topic is None:
            unknown = KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
            )
            self.refused.append(_deletion_result(name, ZERO_UUID, unknown))
        elif topic.topic_id in self._ids:
            text = "The provided topic name maps to an ID that was already supplied."
            self._refuse(name, topic.topic_id, text)
        else:
            self.topics[topic.topic_id] = name

    def _by_id(self, topic_id: Uuid) -> None:
        name = self._image.topic_names_by_id.get(topic_id)
        if self._ids[topic_id] > 1:
            self._refuse(None, topic_id, "Duplicate topic id.")
        elif name is None:
            unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
            self.refused.append(_deletion_result(None, topic_id, unknown))
        elif name not in self._names:  # else the result of the name has the error
            self.topics[topic_id] = name

    def _refuse(self, name: str | None, topic_id: Uuid, text: str) -> None:
        self.refused.append(_deletion_result(name, topic_id, KafkaError(ErrorCode.INVALID_REQUEST, text)))


def _deletion_result(name: str | None, topic_id: Uuid, error: KafkaError | None) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name,
        topic_id=topic_id,
        error_code=error.code if error else ErrorCode.NONE,
        error_message=(error.message or None) if error else None,
    )


def _answer_all(requested: Sequence[DeleteTopicState], error: KafkaError) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[_deletion_result(topic.name, topic.topic_id, error) for topic in requested]
    )


# -- CreatePartitions ----------------------------------------------------------------------------------


async def create_partitions(
    broker: TopicsNeeds, request: Request, message: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    wanted = [_more_partitions(topic) for topic in message.topics]
    results: dict[str, PartitionsAdded | KafkaError]
    try:
        results = await broker.controller.submit(
            lambda image: decide.create_partitions(image, wanted, validate_only=message.validate_only)
        )
    except KafkaError as error:
        results = {topic.name: error for topic in message.topics}
    return CreatePartitionsResponse(
        results=[_growth_result(name, result) for name, result in results.items()]
    )


def _more_partitions(topic: CreatePartitionsTopic) -> MorePartitions:
    assignments = topic.assignments
    by_hand = None if assignments is None else [assignment.broker_ids for assignment in assignments]
    return MorePartitions(topic.name, topic.count, by_hand)


def _growth_result(name: str, result: PartitionsAdded | KafkaError) -> CreatePartitionsTopicResult:
    if isinstance(result, KafkaError):
        return CreatePartitionsTopicResult(name, result.code, result.message or None)
    return CreatePartitionsTopicResult(name)
