"""Requests of classic group members: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Errors are raised as KafkaErrors with Kafka's codes, before anything has changed.
"""

from __future__ import annotations

import uuid

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.coordination import CoordinatorResult
from barnabas.groups.classic.group import ClassicGroup, ClassicGroupState
from barnabas.groups.classic.member import ClassicGroupMember, JoinRequest
from barnabas.groups.classic.rebalance import Rebalances
from barnabas.groups.classic.records import group_record
from barnabas.groups.group import UNKNOWN_MEMBER, DeadlineType, GroupDeadline
from barnabas.groups.results import GroupResult, Respond, join_error
from barnabas.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from barnabas.protocol.messages.groups import (
    JoinGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
)

FIRST_VERSION_WITH_TWO_STEPS = 4  # KIP-394: a member receives its id before it joins
FIRST_VERSION_THAT_SKIPS_ASSIGNMENT = 9  # KIP-814


class ClassicMembership:
    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

    # -- joining ------------------------------------------------------------------------------------

    def join(self, group: ClassicGroup, joining: JoinRequest, result: GroupResult) -> None:
        member_id = joining.request.member_id
        if not self._has_room(group, member_id):
            self._rebalances.forget(group, member_id, result)
            result.response = join_error(UNKNOWN_MEMBER, ErrorCode.GROUP_MAX_SIZE_REACHED)
        elif not group.supports(joining.request.protocol_type, joining.protocols):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "no protocol is common to all members of the group"
            )
        elif member_id == UNKNOWN_MEMBER:
            self._join_unknown(group, joining, result)
        elif member_id in group.pending_joins:
            self._add(group, joining, member_id, result)
        else:
            self._rejoin(group, joining, result)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """True for existing members; while all rejoin, the first ones up to the limit."""
        if group.state in (ClassicGroupState.EMPTY, ClassicGroupState.DEAD):
            return True
        known = group.members.get(member_id)
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            is_joining = known is not None and known.awaiting_join is not None
            return is_joining or group.joining_count < self._rebalances.settings.max_size
        return known is not None or len(group.members) < self._rebalances.settings.max_size

    def _join_unknown(self, group: ClassicGroup, joining: JoinRequest, result: GroupResult) -> None:
        instance_id = joining.request.group_instance_id
        if instance_id is not None:
            new_id = f"{instance_id}-{uuid.uuid4()}"
            if instance_id in group.static_members:
                self._replace_static(group, joining, new_id, result)
            else:
                self._add(group, joining, new_id, result)
            return
        new_id = f"{joining.client.client_id}-{uuid.uuid4()}"
        if joining.version >= FIRST_VERSION_WITH_TWO_STEPS:
            group.pending_joins.add(new_id)
            key = GroupDeadline(DeadlineType.HEARTBEAT, group.group_id, new_id)
            self._rebalances.deadlines.set(key, joining.request.session_timeout_ms)
            result.response = join_error(new_id, ErrorCode.MEMBER_ID_REQUIRED)
        else:
            self._add(group, joining, new_id, result)

    def _add(self, group: ClassicGroup, joining: JoinRequest, member_id: str, result: GroupResult) -> None:
        request = joining.request
        member = ClassicGroupMember(
            member_id, request.group_instance_id, joining.client, joining.timeouts, joining.protocols
        )
        member.is_new = True
        member.awaiting_join = joining
        if group.state is ClassicGroupState.PREPARING_REBALANCE and group.generation == 0:
            group.member_added = True
        group.add(member, request.protocol_type)
        # It learns its id from our response, so it cannot send heartbeats yet: use a longer, bounded timeout.
        key = GroupDeadline(DeadlineType.HEARTBEAT, group.group_id, member_id)
        self._rebalances.deadlines.set(key, NEW_MEMBER_JOIN_TIMEOUT_MS)
        reason = joining.because(f"{member_id} joined from {joining.client.host}")
        self._rebalances.maybe_prepare_rebalance(group, reason, result)

    def _rejoin(self, group: ClassicGroup, joining: JoinRequest, result: GroupResult) -> None:
        request = joining.request
        member = group.check_member(request.member_id, request.group_instance_id)
        changed = member.protocols != joining.protocols
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            self._update(group, member, joining, None, result)
        elif group.state is ClassicGroupState.EMPTY:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        elif changed:
            self._update(group, member, joining, f"{member.member_id} changed its subscription", result)
        elif group.state is ClassicGroupState.STABLE and group.leader == member.member_id:
            # The leader may have seen a change of topics, which only a new assignment picks up.
            self._update(group, member, joining, f"the leader {member.member_id} rejoined", result)
        else:
            result.response = group.join_response(member)  # repeated: the previous one may have been lost

    def _update(
        self,
        group: ClassicGroup,
        member: ClassicGroupMember,
        joining: JoinRequest,
        reason: str | None,
        result: GroupResult,
    ) -> None:
        group.update(member, joining.protocols, joining.timeouts)
        member.awaiting_join = joining
        if reason is None:
            self._rebalances.maybe_complete_join(group, result)
        else:
            self._rebalances.maybe_prepare_rebalance(group, joining.because(reason), result)

    # -- static members -----------------------------------------------------------------------------

    def _replace_static(
        self, group: ClassicGroup, joining: JoinRequest, new_id: str, result: GroupResult
    ) -> None:
        """A static member returned within its session timeout: no rebalance if nothing changes for the others."""
        instance_id = joining.request.group_instance_id
        assert instance_id is not None
        old_leader = group.leader
        old_id = group.static_members[instance_id]
        old_protocols, old_timeouts = group.members[old_id].protocols, group.members[old_id].timeouts
        member = group.replace_static(instance_id, new_id, result)
        self._rebalances.deadlines.cancel(GroupDeadline(DeadlineType.HEARTBEAT, group.group_id, old_id))
        group.update(member, joining.protocols, joining.timeouts)
        self._rebalances.expect_heartbeat(group, member)
        reason = joining.because(f"static member {instance_id} came back as {new_id}")
        if group.state is ClassicGroupState.STABLE and group.select_protocol() == group.protocol:

            def revert() -> None:
                group.update(member, old_protocols, old_timeouts)
                group.replace_static(instance_id, old_id, CoordinatorResult(None))
                self._rebalances.expect_heartbeat(group, group.members[old_id])

            group.note(reason)
            result.records.append(group_record(group, _assignments(group)))
            result.revert = revert
            result.response = self._unchanged(group, member, joining, old_leader)
        else:
            member.awaiting_join = joining
            self._rebalances.maybe_prepare_rebalance(group, reason, result)

    def _unchanged(
        self, group: ClassicGroup, member: ClassicGroupMember, joining: JoinRequest, old_leader: str | None
    ) -> JoinGroupResponse:
        """Keep the generation. A leader must not assign again: it is asked to skip that, or is shown the old leader."""
        if joining.version >= FIRST_VERSION_THAT_SKIPS_ASSIGNMENT:
            return group.join_response(member, skip_assignment=group.leader == member.member_id)
        response = group.join_response(member)
        response.leader, response.members = old_leader or "", []
        return response

    # -- sync and heartbeat -------------------------------------------------------------------------

    def sync(
        self, group: ClassicGroup, request: SyncGroupRequest, respond: Respond, result: GroupResult
    ) -> None:
        member = group.check_member(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        _check_same(request.protocol_type, group.protocol_type)
        _check_same(request.protocol_name, group.protocol)
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._rebalances.synced(group, member)
        if group.state is ClassicGroupState.STABLE:
            result.response = group.sync_response(member.assignment)
            return
        member.awaiting_sync = respond
        if group.leader == member.member_id:
            assignments = {one.member_id: one.assignment for one in request.assignments}
            self._rebalances.assign(
                group, {known: assignments.get(known, b"") for known in group.members}, result
            )

    def heartbeat(
        self, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        member = group.check_member(member_id, instance_id)
        group.check_generation(generation)
        self._rebalances.expect_heartbeat(group, member)
        preparing = group.state is ClassicGroupState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if preparing else ErrorCode.NONE

    # -- leaving ------------------------------------------------------------------------------------

    def leave(
        self, group: ClassicGroup, leavers: list[MemberIdentity], result: GroupResult
    ) -> list[MemberResponse]:
        reasons: list[str] = []
        responses = [self._leave_one(group, leaver, reasons, result) for leaver in leavers]
        if reasons and group.state is not ClassicGroupState.EMPTY:
            self._rebalances.maybe_prepare_rebalance(group, "; ".join(reasons), result)
        return responses

    def _leave_one(
        self, group: ClassicGroup, leaver: MemberIdentity, reasons: list[str], result: GroupResult
    ) -> MemberResponse:
        response = MemberResponse(member_id=leaver.member_id, group_instance_id=leaver.group_instance_id)
        try:
            member_id = self._leaving_id(group, leaver)
        except KafkaError as error:
            response.error_code = error.code
            return response
        self._rebalances.forget(group, member_id, result)
        reasons.append(f"{member_id} left" + (f" ({leaver.reason})" if leaver.reason else ""))
        return response

    def _leaving_id(self, group: ClassicGroup, leaver: MemberIdentity) -> str:
        """Resolve a static member that administrators name by its instance id only (KIP-345)."""
        if leaver.member_id == UNKNOWN_MEMBER:
            holder = group.static_members.get(leaver.group_instance_id or "")
            if holder is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            return holder
        if leaver.member_id in group.pending_joins:
            return leaver.member_id
        return group.check_member(leaver.member_id, leaver.group_instance_id).member_id

    # -- time ---------------------------------------------------------------------------------------

    def heartbeat_overdue(self, group: ClassicGroup, member_id: str, result: GroupResult) -> None:
        """Expire a member's session, unless one of its requests is parked."""
        member = group.members.get(member_id)
        if member is not None and member.keeps_quiet:
            return
        if member is None and member_id not in group.pending_joins:
            return
        self._rebalances.forget(group, member_id, result)
        if member is None:
            self._rebalances.maybe_complete_join(group, result)
        elif group.state is not ClassicGroupState.EMPTY:
            reason = f"{member_id} sent no heartbeat within its session timeout"
            self._rebalances.maybe_prepare_rebalance(group, reason, result)


def _assignments(group: ClassicGroup) -> dict[str, bytes]:
    return {member.member_id: member.assignment for member in group.members.values()}


def _check_same(claimed: str | None, known: str | None) -> None:
    if claimed is not None and known is not None and claimed != known:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the group uses the protocol {known}, not {claimed}"
        )
