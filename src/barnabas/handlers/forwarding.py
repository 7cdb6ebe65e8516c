"""Forwarding to the controller, which alone writes metadata: requests are sent there and the responses
returned.

The request travels in an Envelope, with the client's principal and address (KIP-590), so that the controller
authorizes and charges the client. A controller that does not support Envelope gets the plain request, over
the connection between brokers. That ends with level 2 of `barnabas.metadata.version`, before which a broker
of the cluster may be older.

If the controller changes meanwhile, the new one is asked, within the timeout of a client. Without a
controller, the handler runs here and returns the API's own form of NOT_CONTROLLER.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from barnabas.cluster import MetadataFollower, Peers
from barnabas.cluster.features import ENVELOPE_LEVEL, level_of
from barnabas.cluster.image import NO_CONTROLLER, ConfigResourceType
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.controller import NewTopic
from barnabas.controller import create_topics as decide_creation
from barnabas.handlers.envelope import unwrap, wrap
from barnabas.handlers.needs import HasController, HasImage
from barnabas.network.requests import mute
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.protocol.schema import Message
from barnabas.security import SELF, RequestContext
from barnabas.security.quotas import QuotaKind, Quotas

if TYPE_CHECKING:
    from barnabas.network.requests import Request

TIMEOUT_SECONDS = 20.0  # less than a client's request.timeout.ms of 30 s
RETRY_SECONDS = 0.2
VISIBLE_SECONDS = 5.0  # maximum time until a created topic appears in this broker's image

# The controller has failed, or is not elected yet.
_PASSING = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.BROKER_NOT_AVAILABLE})

logger = rate_limited_logger(__name__)

R = TypeVar("R", bound=Message)
Function = Callable[..., Coroutine[Any, Any, R]]


class ForwardingNeeds(HasController, HasImage, Protocol):
    """Broker attributes used to reach the controller."""

    @property
    def metadata(self) -> MetadataFollower: ...
    @property
    def peers(self) -> Peers: ...
    @property
    def quotas(self) -> Quotas: ...


def by_controller(function: Function[R]) -> Function[R]:
    """Wrap a handler so that it runs on the controller."""

    async def handle(broker: ForwardingNeeds, request: Request, message: Message) -> R:
        if broker.controller.is_active or _was_forwarded(broker, request) or _concerns_this_broker(message):
            return await function(broker, request, message)
        try:
            response = await _forward(broker, message, request.version, request.context)
        except KafkaError:
            return await function(broker, request, message)
        mute(request, getattr(response, "throttle_time_ms", 0))  # as the controller requires
        return cast(R, response)

    handle.__name__ = function.__name__
    handle.__doc__ = function.__doc__
    return handle


def _was_forwarded(broker: ForwardingNeeds, request: Request) -> bool:
    """Detect requests that older brokers forward without an Envelope: on the inter-broker listener, with a
    broker's client id.
    """
    context = request.context
    return context.is_forwarded or (level_of(broker.image) < ENVELOPE_LEVEL and context.is_peer)


def _concerns_this_broker(message: Message) -> bool:
    """Loggers belong to one process and are not metadata."""
    return isinstance(message, IncrementalAlterConfigsRequest) and all(
        resource.resource_type == ConfigResourceType.BROKER_LOGGER for resource in message.resources
    )


async def _forward(broker: ForwardingNeeds, message: Message, version: int, context: RequestContext) -> Any:
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while True:
                try:
                    response = await _ask_controller(broker, message, version, context)
                    if not _is_from_elsewhere(response):
                        return response
                except KafkaError as error:
                    if error.code not in _PASSING:
                        logger.warning("the controller refused a forwarded %s: %s", message.NAME, error)
                await asyncio.sleep(RETRY_SECONDS)
    except TimeoutError:
        raise KafkaError(
            ErrorCode.NOT_CONTROLLER, f"no controller was elected within {TIMEOUT_SECONDS:g} s; retry"
        ) from None


async def _ask_controller(
    broker: ForwardingNeeds, message: Message, version: int, context: RequestContext
) -> Any:
    if await broker.peers.serves(_controller(broker), ApiKey.ENVELOPE):
        envelope = wrap(message, version, context)
        return await unwrap(await to_controller(broker, envelope), type(message), version)
    if level_of(broker.image) >= ENVELOPE_LEVEL:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the controller does not support Envelope")
    return await to_controller(broker, message, version)


def _is_from_elsewhere(response: Message) -> bool:
    """Return whether the response comes from a broker that has ceased to be the controller."""
    return bool(getattr(response, "error_code", 0) == ErrorCode.NOT_CONTROLLER)


def _controller(broker: ForwardingNeeds) -> int:
    controller = broker.image.controller_id
    if controller == NO_CONTROLLER or (controller == broker.node_id and not broker.controller.is_active):
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "no controller is elected at the moment")
    return controller


async def to_controller(broker: ForwardingNeeds, message: Any, version: int | None = None) -> Any:
    """Return the controller's response. A hanging controller is abandoned once there is another."""
    controller = _controller(broker)
    asking = asyncio.ensure_future(broker.peers.send(controller, message, version))
    change = asyncio.ensure_future(broker.metadata.until(lambda image: image.controller_id != controller))
    try:
        await asyncio.wait({asking, change}, return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            return asking.result()
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "another broker has become the controller")
    finally:
        for task in (asking, change):
            task.cancel()
            task.add_done_callback(_seen)


def _seen(task: asyncio.Future[Any]) -> None:
    """Retrieve the exception of an abandoned task."""
    if not task.cancelled():
        task.exception()


async def create_topics(
    broker: ForwardingNeeds, wanted: list[NewTopic], context: RequestContext = SELF
) -> dict[str, KafkaError | None]:
    """Create topics on behalf of a client, or of this broker; return the error of each."""
    if broker.controller.is_active:
        refused = _above_quota(broker, wanted, context)
        admitted = [topic for topic in wanted if topic.name not in refused]
        results = await broker.controller.submit(
            lambda image: decide_creation(image, admitted, broker.policy)
        )
        return refused | {
            name: result if isinstance(result, KafkaError) else None for name, result in results.items()
        }
    request = CreateTopicsRequest(topics=[_creatable(topic) for topic in wanted], timeout_ms=30_000)
    response: CreateTopicsResponse = await _forward(broker, request, CreateTopicsRequest.max_version, context)
    refused = {
        topic.name: KafkaError(ErrorCode(topic.error_code), topic.error_message or "")
        if topic.error_code
        else None
        for topic in response.topics
    }
    await _see(broker, [name for name, error in refused.items() if error is None])
    return refused


def _above_quota(
    broker: ForwardingNeeds, wanted: list[NewTopic], context: RequestContext
) -> dict[str, KafkaError | None]:
    """Return topics above the client's quota; a controller that gets an Envelope checks this itself."""
    refused: dict[str, KafkaError | None] = {}
    if context is SELF or QuotaKind.MUTATION not in broker.quotas.kinds:
        return refused
    for topic in wanted:
        requested = topic.partitions if topic.partitions > 0 else broker.policy.num_partitions
        if broker.quotas.admit(context, len(topic.assignments) or requested, is_strict=True):
            refused[topic.name] = KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    return refused


async def _see(broker: ForwardingNeeds, names: list[str]) -> None:
    """Wait until this broker's image has the topics; the client will ask this broker next."""
    try:
        async with asyncio.timeout(VISIBLE_SECONDS):
            await broker.metadata.until(lambda image: all(name in image.topics for name in names))
    except TimeoutError:
        return


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(index, list(replicas)) for index, replicas in topic.assignments
        ],
        configs=[CreatableTopicConfig(name, value) for name, value in topic.configs.items()],
    )
