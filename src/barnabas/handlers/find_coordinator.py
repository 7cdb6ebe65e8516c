"""FindCoordinator, versions 0 to 6: the coordinator of a group, a transactional id or a share partition.

- Version 0 knows groups only; version 1 brought the key type, version 4 (KIP-699) several keys at a time,
  version 6 (KIP-932) share partitions.
- The internal topic is created by the first request, and the response waits for it; Kafka returns
  COORDINATOR_NOT_AVAILABLE instead, and the client retries.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.handlers.endpoints import endpoints_for
from barnabas.handlers.needs import IsMember
from barnabas.protocol.internal_topics import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    partition_for,
)
from barnabas.protocol.messages.metadata import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from barnabas.network.requests import Request, Result

FIRST_VERSION_WITH_KEYS = 4
FIRST_VERSION_WITH_SHARES = 6
NO_NODE = -1


class CreatesTopics(Protocol):
    async def create_topic(self, name: str) -> None:
        """Create an internal topic on first use; raise KafkaError if that fails."""
        ...


class FindCoordinatorNeeds(IsMember, Protocol):
    """Broker attributes used by FindCoordinator."""

    @property
    def coordinators(self) -> CreatesTopics: ...


class KeyType(IntEnum):
    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


_TOPICS = {
    KeyType.GROUP: CONSUMER_OFFSETS,
    KeyType.TRANSACTION: TRANSACTION_STATE,
    KeyType.SHARE: SHARE_GROUP_STATE,
}


def find_coordinator(
    broker: FindCoordinatorNeeds, request: Request, message: FindCoordinatorRequest
) -> Result[FindCoordinatorResponse]:
    keys = message.coordinator_keys if request.version >= FIRST_VERSION_WITH_KEYS else [message.key]
    topic = _topic(message.key_type, request.version)
    if topic is None:
        refusal = KafkaError(ErrorCode.INVALID_REQUEST, f"unknown coordinator type {message.key_type}")
        return _response([_refused(key, refusal) for key in keys], request.version)
    if topic not in broker.image.topics:
        return _create_and_find(broker, request, topic, keys)
    return _response([_find(broker, request, topic, key) for key in keys], request.version)


def _topic(key_type: int, version: int) -> str | None:
    if key_type == KeyType.SHARE and version < FIRST_VERSION_WITH_SHARES:
        return None
    return _TOPICS.get(KeyType(key_type)) if key_type in tuple(KeyType) else None


async def _create_and_find(
    broker: FindCoordinatorNeeds, request: Request, topic: str, keys: list[str]
) -> FindCoordinatorResponse:
    try:
        await broker.coordinators.create_topic(topic)
    except KafkaError as error:
        unavailable = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic} cannot be created: {error}")
        return _response([_refused(key, unavailable) for key in keys], request.version)
    if topic not in broker.image.topics:  # created by the controller, but not yet in this broker's image
        unavailable = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic} is being created")
        return _response([_refused(key, unavailable) for key in keys], request.version)
    return _response([_find(broker, request, topic, key) for key in keys], request.version)


def _find(broker: FindCoordinatorNeeds, request: Request, topic: str, key: str) -> Coordinator:
    if topic == SHARE_GROUP_STATE and not _names_share_partition(key):
        return _refused(
            key,
            KafkaError(ErrorCode.INVALID_REQUEST, "the key of a share partition is group:topic id:partition"),
        )
    partitions = broker.image.topics[topic].partitions
    leader = partitions[partition_for(key, len(partitions))].leader
    for node_id, host, port, _ in endpoints_for(broker, request.connection):
        if node_id == leader:
            return Coordinator(key=key, node_id=node_id, host=host, port=port, error_message="")
    return _refused(key, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))


def _names_share_partition(key: str) -> bool:
    parts = key.rsplit(":", 2)
    return len(parts) == 3 and bool(parts[0]) and parts[2].isdecimal()


def _refused(key: str, error: KafkaError) -> Coordinator:
    return Coordinator(
        key=key, node_id=NO_NODE, host="", port=-1, error_code=error.code, error_message=error.message
    )


def _response(found: list[Coordinator], version: int) -> FindCoordinatorResponse:
    if version >= FIRST_VERSION_WITH_KEYS:
        return FindCoordinatorResponse(coordinators=found)
    (one,) = found
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message or ErrorCode(one.error_code).name,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )
