"""Classic groups in a shard: their requests, their one record, their deadlines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.errors import ErrorCode, KafkaError
from barnabas.groups.awaited import Awaited, Deadline
from barnabas.groups.classic import ClassicGroup, State
from barnabas.groups.group import UNKNOWN_MEMBER, Committer, GroupType, PlaceCheck, any_place
from barnabas.groups.kind import GroupKind, Replay, ShardContext
from barnabas.groups.membership import Joining, Membership
from barnabas.groups.phases import Phases
from barnabas.groups.step import Respond, Step, join_error
from barnabas.groups.written import confirm, from_value
from barnabas.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue
from barnabas.protocol.messages.groups import (
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from barnabas.protocol.schema import Message


class ClassicGroups(GroupKind[ClassicGroup]):
    group_type = GroupType.CLASSIC
    group_class = ClassicGroup

    def __init__(self, context: ShardContext) -> None:
        super().__init__(context)
        self.phases = Phases(context.settings, context.clock, context.deadlines)
        self._membership = Membership(self.phases)

    def new_group(self, group_id: str) -> ClassicGroup:
        return ClassicGroup(group_id, self.context.clock.now_ms())

    # -- members ------------------------------------------------------------------------------------

    def join(self, joining: Joining, step: Step) -> None:
        """Join a group; one that nobody has heard of begins with a member that has no id yet."""
        request = joining.request
        group = self.context.groups.get(request.group_id)
        if not isinstance(group, ClassicGroup):
            if request.member_id != UNKNOWN_MEMBER:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {request.group_id} has no members")
            self.context.ledger.check_group(request.group_id in self.context.groups)
            group = self.new_group(request.group_id)
        if request.member_id not in group.members and request.member_id not in group.pending_joins:
            self.context.ledger.check_member(is_known=False)
        self._membership.join(group, joining, step)
        self.context.groups[group.group_id] = group

    def sync(self, group: ClassicGroup, request: SyncGroupRequest, respond: Respond, step: Step) -> None:
        self._membership.sync(group, request, respond, step)

    def heartbeat(
        self, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        return self._membership.heartbeat(group, member_id, instance_id, generation)

    def leave(self, group: ClassicGroup, leavers: list[MemberIdentity], step: Step) -> list[MemberResponse]:
        responses = self._membership.leave(group, leavers, step)
        self._drop_if_idle(group)
        return responses

    def deadline_reached(self, group: ClassicGroup, deadline: Deadline, step: Step) -> None:
        if deadline.awaited is Awaited.HEARTBEAT:
            self._membership.heartbeat_overdue(group, deadline.member_id, step)
        elif deadline.awaited is Awaited.SYNC:
            self.phases.sync_overdue(group, step)
        elif group.state is State.PREPARING_REBALANCE:
            if deadline.awaited is Awaited.JOIN:
                self.phases.complete_join(group, step)
            else:
                self.phases.end_initial_delay(group, step)
        self._drop_if_idle(group)

    def _drop_if_idle(self, group: ClassicGroup) -> None:
        if group.is_idle and not self.context.offsets.of_group(group.group_id):
            self.context.groups.pop(group.group_id, None)

    # -- offsets ------------------------------------------------------------------------------------

    def check_commit(self, group: ClassicGroup, committer: Committer) -> PlaceCheck:
        """Who is outside of a group may commit, as long as it has no members."""
        if committer.epoch < 0 and group.state is State.EMPTY:
            return any_place
        if not committer.is_outside:
            member = group.check_member(committer.member_id, committer.instance_id)
            group.check_generation(committer.epoch)
            if group.state in (State.STABLE, State.PREPARING_REBALANCE):
                self.phases.expect_heartbeat(group, member)
        elif not committer.in_transaction:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"group {group.group_id} has members; only they may commit its offsets",
            )
        if group.state is State.COMPLETING_REBALANCE and not committer.in_transaction:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        return any_place

    # -- replaying ----------------------------------------------------------------------------------

    def replays(self) -> Mapping[type[Message], Replay]:
        return {GroupMetadataKey: self._replay}

    def _replay(self, key: GroupMetadataKey, value: Any) -> None:
        groups, now_ms = self.context.groups, self.context.clock.now_ms()
        known = groups.get(key.group)
        if not isinstance(value, GroupMetadataValue):
            if isinstance(known, ClassicGroup):
                del groups[key.group]
                known.transition(State.DEAD, now_ms)
        elif self.context.is_live and isinstance(known, ClassicGroup):
            confirm(known, value)
        else:
            groups[key.group] = from_value(key.group, value, now_ms)

    def loaded(self, group: ClassicGroup) -> None:
        """Members that were there when the log was written have a session timeout's time to show up."""
        for member in group.members.values():
            self.phases.expect_heartbeat(group, member)
        if len(group.members) > self.context.settings.max_size:
            self.phases.prepare(group, "the group is larger than group.max.size", Step())

    def unloaded(self, group: ClassicGroup) -> None:
        group.transition(State.DEAD, self.context.clock.now_ms())
        for member in group.members.values():
            if member.awaiting_join is not None:
                member.awaiting_join(join_error(member.member_id, ErrorCode.NOT_COORDINATOR))
            if member.awaiting_sync is not None:
                member.awaiting_sync(SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
