"""Membership of classic groups: JoinGroup 0 to 9, SyncGroup 0 to 5, Heartbeat 0 to 4, LeaveGroup 0 to 5.

JoinGroup
- Version 1 brought the rebalance timeout; version 0 uses the session timeout for it.
- Since version 4 (KIP-394) a new member first gets an id and has to rejoin with it.
- Version 5 (KIP-345) brought static members, 8 (KIP-800) a reason, 9 (KIP-814) skipping the assignment.
- Until version 6 the protocol in an error response is the empty string, since version 7 null.

SyncGroup: since version 5 the protocol must be named, so that a member of another one notices.

LeaveGroup: since version 3 several members at a time, each with its own error.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.groups import ClientInfo, GroupSettings
from barnabas.groups.classic import JoinRequest
from barnabas.handlers.needs import HasGroups
from barnabas.network.requests import access_of
from barnabas.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from barnabas.network.requests import Request

FIRST_SYNC_WITH_PROTOCOL = 5
FIRST_LEAVE_OF_SEVERAL = 3


def join_group(broker: HasGroups, request: Request, message: JoinGroupRequest) -> JoinGroupResponse | None:
    groups = broker.coordinators.groups
    client = client_of(request)
    joining = JoinRequest(message, client, request.version, request.respond)
    request.client_wait = max(message.rebalance_timeout_ms, message.session_timeout_ms) / 1000
    try:
        _check_join(message, groups.settings)
    except KafkaError as error:
        return joining.error(error.code)
    groups.join(joining)
    return None


def _check_join(message: JoinGroupRequest, settings: GroupSettings) -> None:
    _check_group_id(message.group_id)
    shortest, longest = settings.min_session_timeout_ms, settings.max_session_timeout_ms
    if not shortest <= message.session_timeout_ms <= longest:
        raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)


def _check_group_id(group_id: str) -> None:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)


def client_of(request: Request) -> ClientInfo:
    """Return the client; Kafka writes addresses as Java does, with a slash after the (empty) host name.
    Patterns of a group match topics that the requesting client may describe.
    """
    address = f"/{request.connection.peer[0]}"
    return ClientInfo(request.client_id or "", address, access_of(request).may_describe)


def sync_group(broker: HasGroups, request: Request, message: SyncGroupRequest) -> SyncGroupResponse | None:
    groups = broker.coordinators.groups
    request.client_wait = groups.settings.max_session_timeout_ms / 1000
    try:
        _check_sync(message, request.version)
    except KafkaError as error:
        return SyncGroupResponse(error_code=error.code)
    groups.sync(message, request.respond)
    return None


def _check_sync(message: SyncGroupRequest, version: int) -> None:
    _check_group_id(message.group_id)
    names_protocol = message.protocol_type is not None and message.protocol_name is not None
    if version >= FIRST_SYNC_WITH_PROTOCOL and not names_protocol:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def heartbeat(broker: HasGroups, request: Request, message: HeartbeatRequest) -> HeartbeatResponse | None:
    if not message.group_id:
        return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    broker.coordinators.groups.heartbeat(message, partial(_answer_heartbeat, request))
    return None


def _answer_heartbeat(request: Request, outcome: ErrorCode | KafkaError) -> None:
    error = outcome.code if isinstance(outcome, KafkaError) else outcome
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        error = ErrorCode.NONE  # members are not removed while the group is loading
    request.respond(HeartbeatResponse(error_code=error))


def leave_group(broker: HasGroups, request: Request, message: LeaveGroupRequest) -> LeaveGroupResponse | None:
    if not message.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    several = request.version >= FIRST_LEAVE_OF_SEVERAL
    leavers = message.members if several else [MemberIdentity(member_id=message.member_id)]
    broker.coordinators.groups.leave(message.group_id, leavers, partial(_answer_leave, request, leavers))
    return None


def _refused_leave(leavers: list[MemberIdentity], error: KafkaError) -> LeaveGroupResponse:
    if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
        return LeaveGroupResponse(members=[_unknown(leaver) for leaver in leavers])
    return LeaveGroupResponse(error_code=error.code)


def _unknown(leaver: MemberIdentity) -> MemberResponse:
    """Response for a member of an unknown group."""
    return MemberResponse(
        member_id=leaver.member_id,
        group_instance_id=leaver.group_instance_id,
        error_code=ErrorCode.UNKNOWN_MEMBER_ID,
    )


def _answer_leave(
    request: Request, leavers: list[MemberIdentity], outcome: LeaveGroupResponse | KafkaError
) -> None:
    response = _refused_leave(leavers, outcome) if isinstance(outcome, KafkaError) else outcome
    if request.version < FIRST_LEAVE_OF_SEVERAL and response.members:
        response = LeaveGroupResponse(error_code=response.members[0].error_code)
    request.respond(response)
