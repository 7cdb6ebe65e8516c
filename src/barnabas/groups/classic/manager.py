"""Classic groups in a shard: requests, the group record and deadlines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.coordination import CoordinatorResult
from barnabas.groups.classic.group import ClassicGroup, ClassicGroupState
from barnabas.groups.classic.member import JoinRequest
from barnabas.groups.classic.membership import ClassicMembership
from barnabas.groups.classic.rebalance import Rebalances
from barnabas.groups.classic.records import confirm, from_value
from barnabas.groups.group import (
    UNKNOWN_MEMBER,
    Committer,
    DeadlineType,
    GroupDeadline,
    GroupType,
    PartitionCheck,
    any_partition,
)
from barnabas.groups.manager import GroupManager, Replay, ShardContext
from barnabas.groups.results import GroupResult
from barnabas.protocol.messages.groups import (
    MemberIdentity,
    MemberResponse,
    SyncGroupResponse,
)
from barnabas.protocol.messages.records.group import GroupMetadataKey, GroupMetadataValue
from barnabas.protocol.schema import Message


class ClassicGroupManager(GroupManager[ClassicGroup]):
    group_type = GroupType.CLASSIC
    group_class = ClassicGroup

    def __init__(self, context: ShardContext) -> None:
        super().__init__(context)
        self.rebalances = Rebalances(context.settings, context.clock, context.deadlines)
        self.membership = ClassicMembership(self.rebalances)

    def new_group(self, group_id: str) -> ClassicGroup:
        return ClassicGroup(group_id, self.context.clock.now_ms())

    # -- members ------------------------------------------------------------------------------------

    def join(self, joining: JoinRequest, result: GroupResult) -> None:
        """Join a group; an unknown group is created by a member without an id."""
        request = joining.request
        group = self.context.groups.get(request.group_id)
        if not isinstance(group, ClassicGroup):
            if request.member_id != UNKNOWN_MEMBER:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {request.group_id} has no members")
            if group is None:
                self.context.ledger.check_group()
            group = self.new_group(request.group_id)
        if request.member_id not in group.members and request.member_id not in group.pending_joins:
            self.context.ledger.check_member()
        self.membership.join(group, joining, result)
        self.context.groups[group.group_id] = group

    def leave(
        self, group: ClassicGroup, leavers: list[MemberIdentity], result: GroupResult
    ) -> list[MemberResponse]:
        responses = self.membership.leave(group, leavers, result)
        self._drop_if_idle(group)
        return responses

    def deadline_reached(self, group: ClassicGroup, deadline: GroupDeadline, result: GroupResult) -> None:
        if deadline.type is DeadlineType.HEARTBEAT:
            self.membership.heartbeat_overdue(group, deadline.member_id, result)
        elif deadline.type is DeadlineType.SYNC:
            self.rebalances.sync_overdue(group, result)
        elif group.state is ClassicGroupState.PREPARING_REBALANCE:
            if deadline.type is DeadlineType.JOIN:
                self.rebalances.complete_join(group, result)
            else:
                self.rebalances.end_initial_delay(group, result)
        self._drop_if_idle(group)

    def _drop_if_idle(self, group: ClassicGroup) -> None:
        if group.is_idle and not self.context.offsets.of_group(group.group_id):
            self.context.groups.pop(group.group_id, None)

    # -- offsets ------------------------------------------------------------------------------------

    def check_commit(self, group: ClassicGroup, committer: Committer) -> PartitionCheck:
        """Clients outside the group may commit only while it has no members."""
        if committer.epoch < 0 and group.state is ClassicGroupState.EMPTY:
            return any_partition
        if not committer.is_outside:
            member = group.check_member(committer.member_id, committer.instance_id)
            group.check_generation(committer.epoch)
            if group.state in (ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE):
                self.rebalances.expect_heartbeat(group, member)
        elif not committer.in_transaction:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"group {group.group_id} has members; only they may commit its offsets",
            )
        if group.state is ClassicGroupState.COMPLETING_REBALANCE and not committer.in_transaction:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        return any_partition

    # -- replaying ----------------------------------------------------------------------------------

    def replays(self) -> Mapping[type[Message], Replay]:
        return {GroupMetadataKey: self._replay}

    def _replay(self, key: GroupMetadataKey, value: Any) -> None:
        groups, now_ms = self.context.groups, self.context.clock.now_ms()
        known = groups.get(key.group)
        if not isinstance(value, GroupMetadataValue):
            if isinstance(known, ClassicGroup):
                del groups[key.group]
                known.transition(ClassicGroupState.DEAD, now_ms)
        elif self.context.is_live and isinstance(known, ClassicGroup):
            confirm(known, value)
        else:
            groups[key.group] = from_value(key.group, value, now_ms)

    def loaded(self, group: ClassicGroup) -> None:
        """Give the members of the log one session timeout to send a heartbeat."""
        for member in group.members.values():
            self.rebalances.expect_heartbeat(group, member)
        if len(group.members) > self.context.settings.max_size:
            self.rebalances.prepare(group, "the group is larger than group.max.size", CoordinatorResult(None))

    def unloaded(self, group: ClassicGroup) -> None:
        group.transition(ClassicGroupState.DEAD, self.context.clock.now_ms())
        for member in group.members.values():
            joining = member.awaiting_join
            if joining is not None:
                joining.respond(joining.error(ErrorCode.NOT_COORDINATOR, member.member_id))
            if member.awaiting_sync is not None:
                member.awaiting_sync(SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
