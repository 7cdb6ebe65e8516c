"""Validation of ConsumerGroupHeartbeat requests, independent of the group; the messages are Kafka's."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.groups.modern import JOINING, LEAVING, LEAVING_FOR_A_WHILE
from barnabas.protocol.messages.consumer import ConsumerGroupHeartbeatRequest

FIRST_VERSION_WITH_CLIENT_MEMBER_IDS = 1
UNCHANGED = -1


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]) -> None:
    epoch = request.member_epoch
    if version >= FIRST_VERSION_WITH_CLIENT_MEMBER_IDS or epoch > JOINING or epoch == LEAVING:
        _check_not_empty(request.member_id, "MemberId")
    _check_not_empty(request.group_id, "GroupId")
    _check_not_empty(request.instance_id, "InstanceId")
    _check_not_empty(request.rack_id, "RackId")
    if epoch == JOINING:
        _check_join(request)
    elif epoch == LEAVING_FOR_A_WHILE and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVING_FOR_A_WHILE:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: "
            f"{', '.join(assignors)}.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == UNCHANGED:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )


def _check_not_empty(value: str | None, name: str) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{name} can't be empty.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
