"""Consumer groups in a shard: requests, replay and deadlines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.groups.assigning import Assigning, TargetAssignments
from barnabas.groups.classic.manager import ClassicGroupManager
from barnabas.groups.consumer.classic_members import ClassicMembers
from barnabas.groups.consumer.group import ConsumerGroup
from barnabas.groups.consumer.heartbeats import ConsumerHeartbeats
from barnabas.groups.consumer.leaving import Leaving
from barnabas.groups.consumer.member import NO_EPOCH, ConsumerMember, MemberState
from barnabas.groups.consumer.migration import Migration
from barnabas.groups.consumer.patterns import Resolved
from barnabas.groups.consumer.records import (
    target_epoch_record,
    target_record,
    with_progress,
    with_subscription,
)
from barnabas.groups.consumer.resolving import Resolving
from barnabas.groups.consumer.targets import compute, view_of
from barnabas.groups.group import Committer, DeadlineType, GroupDeadline, GroupType, PartitionCheck
from barnabas.groups.manager import Replay, ShardContext
from barnabas.groups.partition_kind import PartitionGroupKind
from barnabas.groups.results import GroupResult
from barnabas.protocol.messages.records.group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from barnabas.protocol.schema import Message

_OVERDUE = {
    DeadlineType.HEARTBEAT: "sent no heartbeat within its session timeout",
    DeadlineType.REVOCATION: "did not give up its partitions within its rebalance timeout",
    DeadlineType.JOIN: "did not rejoin within its rebalance timeout",
    DeadlineType.SYNC: "did not sync within its rebalance timeout",
}


class ConsumerGroupManager(PartitionGroupKind[ConsumerGroup]):
    group_type = GroupType.CONSUMER
    group_class = ConsumerGroup
    epoch_without_target = NO_EPOCH

    def __init__(self, context: ShardContext, classic: ClassicGroupManager) -> None:
        super().__init__(context)
        migration = Migration(self, classic)
        self._leaving = Leaving(self, migration)
        resolving = Resolving(context)
        targets = TargetAssignments(
            ConsumerGroup, lambda group: compute(context, view_of(group)), target_record, target_epoch_record
        )
        assigning = Assigning(context, targets)
        self.heartbeats = ConsumerHeartbeats(self, migration, self._leaving, resolving, assigning)
        self.classic_members = ClassicMembers(self, migration, self._leaving, resolving, assigning)

    def new_group(self, group_id: str) -> ConsumerGroup:
        return ConsumerGroup(group_id)

    def check_commit(self, group: ConsumerGroup, committer: Committer) -> PartitionCheck:
        return group.check_commit(committer)

    # -- deadlines ----------------------------------------------------------------------------------

    def deadline_reached(self, group: ConsumerGroup, deadline: GroupDeadline, result: GroupResult) -> None:
        member = group.members.get(deadline.member_id)
        if member is None:
            return
        if deadline.type is DeadlineType.REVOCATION and member.state is not MemberState.UNREVOKED:
            return
        self._leaving.fence(group, [member], f"{member.member_id} {_OVERDUE[deadline.type]}", result)

    def loaded(self, group: ConsumerGroup) -> None:
        group.topics_may_have_changed = True
        for member in group.members.values():
            session_ms = member.classic.session_ms if member.classic is not None else None
            self.expect_heartbeat(group.group_id, member.member_id, session_ms)
            if member.state is MemberState.UNREVOKED and member.classic is None:
                self.expect_revocation(group.group_id, member.member_id, member.rebalance_ms)

    # -- replaying ----------------------------------------------------------------------------------

    def subscribed(self, group: ConsumerGroup, member_id: str, value: Any) -> ConsumerMember:
        names = group.subscriptions.share(value.subscribed_topic_names)
        return with_subscription(_member(group, member_id), value, names)

    def replays(self) -> Mapping[type[Message], Replay]:
        return {
            ConsumerGroupMetadataKey: self.replay_epoch,
            ConsumerGroupPartitionMetadataKey: self._replay_old_metadata,
            ConsumerGroupMemberMetadataKey: self.replay_member,
            ConsumerGroupTargetAssignmentMetadataKey: self.replay_target_epoch,
            ConsumerGroupTargetAssignmentMemberKey: self.replay_target,
            ConsumerGroupCurrentMemberAssignmentKey: self._replay_progress,
            ConsumerGroupRegularExpressionKey: self._replay_pattern,
        }

    def _replay_old_metadata(self, key: ConsumerGroupPartitionMetadataKey, value: Any) -> None:
        if group := self.for_replay(key.group_id, create=value is not None):
            group.has_old_metadata = value is not None

    def _replay_progress(self, key: ConsumerGroupCurrentMemberAssignmentKey, value: Any) -> None:
        group = self.for_replay(key.group_id, create=value is not None)
        if group is None:
            return
        if value is not None:
            group.store(with_progress(_member(group, key.member_id), value))
        elif known := group.members.get(key.member_id):
            group.store(
                known.changed(member_epoch=NO_EPOCH, previous_member_epoch=NO_EPOCH, owned={}, revoking={})
            )

    def _replay_pattern(self, key: ConsumerGroupRegularExpressionKey, value: Any) -> None:
        group = self.for_replay(key.group_id, create=value is not None)
        if group is None:
            return
        if value is None:
            group.resolved.pop(key.regular_expression, None)
        else:
            group.resolved[key.regular_expression] = Resolved(
                frozenset(value.topics), value.version, value.timestamp
            )


def _member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    return group.members.get(member_id) or ConsumerMember(member_id=member_id)
