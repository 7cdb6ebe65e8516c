"""ShareAcknowledge, versions 1 and 2: what became of acquired records. Version 2 brought renewing (KIP-1222)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.handlers.share.requests import Acknowledging, Leaders, ShareNeeds, check_member
from barnabas.protocol.messages.share import (
    ShareAcknowledgePartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from barnabas.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, ShareSession

if TYPE_CHECKING:
    from barnabas.network.requests.dispatch import Request


def share_acknowledge(
    broker: ShareNeeds, request: Request, message: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse | None:
    try:
        session = _session(broker, message)
    except KafkaError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=error.message)
    acknowledging = Acknowledging(broker, session.key, renewing=message.is_renew_ack)

    def done() -> None:
        if message.share_session_epoch == FINAL_EPOCH:
            broker.coordinators.share_partitions.end_session(session)
        request.respond(_response(broker, request, session, acknowledging))

    acknowledging.start(message.topics, done)
    return None


def _session(broker: ShareNeeds, message: ShareAcknowledgeRequest) -> ShareSession:
    key = check_member(message.group_id, message.member_id)
    if message.share_session_epoch == INITIAL_EPOCH:
        raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "a session begins with a fetch")
    session = broker.coordinators.share_partitions.sessions.find(key)
    if message.share_session_epoch != FINAL_EPOCH:
        session.pass_epoch(message.share_session_epoch)
    return session


def _response(
    broker: ShareNeeds, request: Request, session: ShareSession, acknowledging: Acknowledging
) -> ShareAcknowledgeResponse:
    leaders = Leaders(broker, request, set())
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    for place, error in acknowledging.outcomes.items():
        data = ShareAcknowledgePartitionData(partition_index=place.partition)
        if error is not None:
            data.error_code, data.error_message = error.code, error.message
            leaders.point_to(place, error.code, data)
        topic = topics.setdefault(place.topic_id, ShareAcknowledgeTopicResponse(place.topic_id, []))
        topic.partitions.append(data)
    lock_ms = broker.coordinators.share_partitions.configs.milliseconds(
        session.key.group_id, "share.record.lock.duration.ms"
    )
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lock_ms,
        responses=list(topics.values()),
        node_endpoints=leaders.endpoints(),
    )
