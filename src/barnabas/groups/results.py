"""Results of group operations: replies to parked requests, and errors of records that cannot be stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.common.errors import ErrorCode
from barnabas.coordination import CoordinatorResult, Reply, coordinator_error
from barnabas.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse

Respond = Callable[[Any], None]

GroupResult = CoordinatorResult[Any]
"""Collects the records and replies of one operation, whatever its response is."""


def group_error(error: ErrorCode) -> ErrorCode:
    """Replace UNKNOWN_SERVER_ERROR, Kafka's answer to records that are too large, by an error clients understand."""
    return coordinator_error(error, too_large=ErrorCode.GROUP_MAX_SIZE_REACHED)


def commit_error(error: ErrorCode) -> ErrorCode:
    """The same for an offset commit."""
    return coordinator_error(error, too_large=ErrorCode.INVALID_COMMIT_OFFSET_SIZE)


def join_error(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, protocol_name=None, member_id=member_id)


def sync_reply(respond: Respond, response: SyncGroupResponse) -> Reply:
    return Reply(respond, response, lambda error: SyncGroupResponse(error_code=group_error(error.code)))
