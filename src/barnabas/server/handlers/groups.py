"""Membership of classic groups: JoinGroup 0 to 9, SyncGroup 0 to 5, Heartbeat 0 to 4, LeaveGroup 0 to 5.

JoinGroup
- Version 1 has a rebalance timeout of its own; version 0 uses the session timeout for it.
- Since version 4 (KIP-394) a new member is first given an id and has to come back with it.
- Version 5 (KIP-345) brought static members, 8 (KIP-800) a reason, 9 (KIP-814) skipping the assignment.
- Until version 6 the protocol in an error answer is the empty string, since version 7 null.

SyncGroup: since version 5 the protocol must be named, so that a member of another one notices.

LeaveGroup: since version 3 several members at a time, each with an error of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode, KafkaError
from barnabas.groups.members import Client
from barnabas.groups.membership import Joining
from barnabas.groups.shard import GroupShard
from barnabas.groups.step import Step, join_error
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
    from barnabas.server.broker import Broker
    from barnabas.server.dispatch import Request

FIRST_JOIN_WITH_NULL_PROTOCOL = 7
FIRST_SYNC_WITH_PROTOCOL = 5
FIRST_LEAVE_OF_SEVERAL = 3


def join_group(broker: Broker, request: Request, message: JoinGroupRequest) -> JoinGroupResponse | None:
    def respond(response: JoinGroupResponse) -> None:
        request.respond(_for_version(response, request.version))

    def refuse(error: ErrorCode) -> None:
        respond(join_error(message.member_id, error))

    groups = broker.coordinators.groups
    settings = groups.settings
    if not message.group_id:
        refuse(ErrorCode.INVALID_GROUP_ID)
    elif not (
        settings.min_session_timeout_ms <= message.session_timeout_ms <= settings.max_session_timeout_ms
    ):
        refuse(ErrorCode.INVALID_SESSION_TIMEOUT)
    else:
        request.patience = max(message.rebalance_timeout_ms, message.session_timeout_ms) / 1000
        joining = Joining(message, client_of(request), request.version, respond)
        groups.perform(message.group_id, lambda shard, step: shard.join(joining, step), refuse)
    return None


def client_of(request: Request) -> Client:
    """Kafka writes an address as Java does: with a slash where the host name could stand."""
    return Client(request.client_id or "", f"/{request.connection.peer[0]}")


def _for_version(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    if version < FIRST_JOIN_WITH_NULL_PROTOCOL and response.protocol_name is None:
        response.protocol_name = ""
    return response


def sync_group(broker: Broker, request: Request, message: SyncGroupRequest) -> SyncGroupResponse | None:
    def refuse(error: ErrorCode) -> None:
        request.respond(SyncGroupResponse(error_code=error))

    names_protocol = message.protocol_type is not None and message.protocol_name is not None
    if not message.group_id:
        refuse(ErrorCode.INVALID_GROUP_ID)
    elif request.version >= FIRST_SYNC_WITH_PROTOCOL and not names_protocol:
        refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    else:
        request.patience = broker.coordinators.groups.settings.max_session_timeout_ms / 1000
        broker.coordinators.groups.perform(
            message.group_id, lambda shard, step: shard.sync(message, request.respond, step), refuse
        )
    return None


def heartbeat(broker: Broker, request: Request, message: HeartbeatRequest) -> HeartbeatResponse | None:
    if not message.group_id:
        return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)

    def look(shard: GroupShard) -> ErrorCode:
        return shard.heartbeat(
            message.group_id, message.member_id, message.group_instance_id, message.generation_id
        )

    def done(outcome: ErrorCode | KafkaError) -> None:
        error = outcome.code if isinstance(outcome, KafkaError) else outcome
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            error = ErrorCode.NONE  # nobody is put out of a group while we do not know who is in it
        request.respond(HeartbeatResponse(error_code=error))

    broker.coordinators.groups.read(message.group_id, look, done)
    return None


def leave_group(broker: Broker, request: Request, message: LeaveGroupRequest) -> LeaveGroupResponse | None:
    several = request.version >= FIRST_LEAVE_OF_SEVERAL
    leavers = message.members if several else [MemberIdentity(member_id=message.member_id)]

    def leave(shard: GroupShard, step: Step) -> None:
        members = shard.leave(message.group_id, leavers, step)
        step.answer(request.respond, _leave_response(members, several))

    def refuse(error: ErrorCode) -> None:
        if error is ErrorCode.UNKNOWN_MEMBER_ID:  # there is no such group
            members = [
                MemberResponse(
                    member_id=leaver.member_id, group_instance_id=leaver.group_instance_id, error_code=error
                )
                for leaver in leavers
            ]
            request.respond(_leave_response(members, several))
        else:
            request.respond(LeaveGroupResponse(error_code=error))

    if not message.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    broker.coordinators.groups.perform(message.group_id, leave, refuse)
    return None


def _leave_response(members: list[MemberResponse], several: bool) -> LeaveGroupResponse:
    if several:
        return LeaveGroupResponse(members=members)
    return LeaveGroupResponse(error_code=members[0].error_code)
