"""Metadata is written by the controller: a broker that is not it passes the request on and its answer back.

Should the controller change meanwhile, the next one is asked, for as long as a client would wait. When there is none,
the handler runs here and answers, in the words of its own API, that this is not the controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.cluster.image import NO_CONTROLLER, ResourceType
from barnabas.cluster.peers import PEER_CLIENT_ID
from barnabas.controller.topics import NewTopic
from barnabas.controller.topics import create_topics as decide_creation
from barnabas.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.dispatch import Request

PATIENCE_SECONDS = 20.0  # less than a client's request.timeout.ms of 30 s
RETRY_SECONDS = 0.2
VISIBLE_SECONDS = 5.0  # how long a created topic may take to appear in our own image

R = TypeVar("R")
Function = Callable[[Any, Any, Any], Coroutine[Any, Any, R]]


def by_controller(function: Function[R]) -> Function[R]:
    """A handler that runs on the controller, wherever its request arrives."""

    async def handle(broker: Broker, request: Request, message: Any) -> R:
        is_forwarded = request.is_from_broker and (request.client_id or "").startswith(PEER_CLIENT_ID)
        if broker.controller.is_active or is_forwarded or _concerns_this_broker(message):
            return await function(broker, request, message)
        try:
            response: R = await _forward(broker, message, request.version)
        except KafkaError:
            return await function(broker, request, message)
        return response

    handle.__name__ = function.__name__
    handle.__doc__ = function.__doc__
    return handle


def _concerns_this_broker(message: Any) -> bool:
    """Loggers belong to the process that has them, and to no metadata."""
    return isinstance(message, IncrementalAlterConfigsRequest) and all(
        resource.resource_type == ResourceType.BROKER_LOGGER for resource in message.resources
    )


async def _forward(broker: Broker, message: Any, version: int) -> Any:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                with suppress(KafkaError):  # whoever we asked is gone, or not yet in office
                    response = await to_controller(broker, message, version)
                    if not _is_from_elsewhere(response):
                        return response
                await asyncio.sleep(RETRY_SECONDS)
    except TimeoutError:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "nobody has been the controller for a while") from None


def _is_from_elsewhere(response: Any) -> bool:
    """Has whoever we asked just ceased to be the controller?"""
    return bool(getattr(response, "error_code", 0) == ErrorCode.NOT_CONTROLLER)


async def to_controller(broker: Broker, message: Any, version: int | None = None) -> Any:
    """The controller's answer. One that hangs is not waited for any longer once there is another."""
    controller = broker.image.controller_id
    if controller == NO_CONTROLLER or (controller == broker.node_id and not broker.controller.is_active):
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "nobody is the controller at the moment")
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
    """Whatever became of a task that nobody waits for any longer."""
    if not task.cancelled():
        task.exception()


async def create_topics(broker: Broker, wanted: list[NewTopic]) -> dict[str, KafkaError | None]:
    """Create topics that somebody needs without having asked for it; why each was not created."""
    if broker.controller.is_active:
        results = await broker.controller.submit(lambda image: decide_creation(image, wanted, broker.policy))
        return {name: result if isinstance(result, KafkaError) else None for name, result in results.items()}
    request = CreateTopicsRequest(topics=[_creatable(topic) for topic in wanted], timeout_ms=30_000)
    response: CreateTopicsResponse = await _forward(broker, request, CreateTopicsRequest.max_version)
    refused = {
        topic.name: KafkaError(ErrorCode(topic.error_code), topic.error_message or "")
        if topic.error_code
        else None
        for topic in response.topics
    }
    await _see(broker, [name for name, error in refused.items() if error is None])
    return refused


async def _see(broker: Broker, names: list[str]) -> None:
    """Wait until our own image has them; the client that asked will ask us next."""
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
