"""Share groups in a shard: requests, replay and deadlines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import Uuid
from barnabas.coordination import CoordinatorRecord, CoordinatorResult
from barnabas.groups.group import Committer, GroupDeadline, GroupType, PartitionCheck
from barnabas.groups.manager import Replay, ShardContext
from barnabas.groups.partition_kind import PartitionGroupKind
from barnabas.groups.results import GroupResult
from barnabas.groups.share.group import FIRST_EPOCH, ShareGroup
from barnabas.groups.share.heartbeats import ShareHeartbeats
from barnabas.groups.share.member import ShareMember
from barnabas.groups.share.records import (
    epoch_record,
    state_partitions_record,
    to_state_partitions,
    with_progress,
    with_subscription,
)
from barnabas.groups.share.state_partitions import Partitions, StatePartitions
from barnabas.protocol.messages.records.share_group import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)
from barnabas.protocol.schema import Message


class ShareGroupManager(PartitionGroupKind[ShareGroup]):
    group_type = GroupType.SHARE
    group_class = ShareGroup
    epoch_without_target = FIRST_EPOCH

    def __init__(self, context: ShardContext) -> None:
        super().__init__(context)
        self.heartbeats = ShareHeartbeats(self)

    def new_group(self, group_id: str) -> ShareGroup:
        return ShareGroup(group_id)

    def check_commit(self, group: ShareGroup, committer: Committer) -> PartitionCheck:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group.")

    # -- state of partitions ------------------------------------------------------------------------

    def state_created(self, group_id: str, created: Partitions) -> CoordinatorResult[None]:
        """The share coordinator has state for these partitions: the next heartbeats can assign them."""
        group = self.find(group_id)
        self._not_begun(group_id, created)
        return CoordinatorResult(None, _changed(group, group.states.done(created)))

    def state_not_created(self, group_id: str, wanted: Partitions) -> CoordinatorResult[None]:
        group = self.find(group_id)
        self._not_begun(group_id, wanted)
        return CoordinatorResult(None, _changed(group, group.states.failed(wanted)))

    def _not_begun(self, group_id: str, topics: Iterable[Uuid]) -> None:
        for topic in topics:
            self.heartbeats.begun_ms.pop((group_id, topic), None)

    def begin_reset(self, group_id: str, wanted: Partitions) -> CoordinatorResult[int]:
        """Set offsets of a group without members; the group is created if it does not exist."""
        records: list[CoordinatorRecord] = []
        group = self.context.groups.get(group_id)
        if group is None:
            records.append(epoch_record(group_id, FIRST_EPOCH, 0, "its offsets were set"))
            group = self.new_group(group_id)
        else:
            group = self.find(group_id)
        group.check_empty()
        return CoordinatorResult(group.epoch, records + _changed(group, group.states.begun(wanted)))

    def begin_deletion(self, group_id: str, topics: Iterable[Uuid]) -> CoordinatorResult[Partitions]:
        """Partitions whose state is to be deleted now."""
        group = self.find(group_id)
        group.check_empty()
        chosen = set(topics)
        found = {
            topic: each
            for partitions in (group.states.initializing, group.states.initialized)
            for topic, each in partitions.items()
            if topic in chosen
        }
        return CoordinatorResult(found, _changed(group, group.states.delete(chosen)))

    def state_deleted(self, group_id: str, topics: Iterable[Uuid]) -> CoordinatorResult[None]:
        group = self.find(group_id)
        return CoordinatorResult(None, _changed(group, group.states.forgotten(topics)))

    # -- deadlines ----------------------------------------------------------------------------------

    def deadline_reached(self, group: ShareGroup, deadline: GroupDeadline, result: GroupResult) -> None:
        member = group.members.get(deadline.member_id)
        if member is not None:
            reason = f"{member.member_id} sent no heartbeat within its session timeout"
            self.heartbeats.fence(group, member, reason, result)

    def loaded(self, group: ShareGroup) -> None:
        group.topics_may_have_changed = True
        for member_id in group.members:
            self.expect_heartbeat(group.group_id, member_id)

    def topics_changed(self, group: ShareGroup, changed: Any, deleted: Any) -> None:
        super().topics_changed(group, changed, deleted)
        removed_topics = {
            topic
            for partitions in (group.states.initializing, group.states.initialized)
            for topic, each in partitions.items()
            if each.name in deleted
        }
        if removed_topics:
            group_id = group.group_id
            self.context.soon(lambda: self.state_deleted(group_id, removed_topics))

    # -- replaying ----------------------------------------------------------------------------------

    def subscribed(self, group: ShareGroup, member_id: str, value: Any) -> ShareMember:
        names = group.subscriptions.share(value.subscribed_topic_names)
        return with_subscription(_member(group, member_id), value, names)

    def replays(self) -> Mapping[type[Message], Replay]:
        return {
            ShareGroupMetadataKey: self.replay_epoch,
            ShareGroupMemberMetadataKey: self.replay_member,
            ShareGroupTargetAssignmentMetadataKey: self.replay_target_epoch,
            ShareGroupTargetAssignmentMemberKey: self.replay_target,
            ShareGroupCurrentMemberAssignmentKey: self._replay_progress,
            ShareGroupStatePartitionMetadataKey: self._replay_states,
        }

    def _replay_progress(self, key: ShareGroupCurrentMemberAssignmentKey, value: Any) -> None:
        group = self.for_replay(key.group_id, create=value is not None)
        if group is not None and value is not None:
            group.store(with_progress(_member(group, key.member_id), value))

    def _replay_states(self, key: ShareGroupStatePartitionMetadataKey, value: Any) -> None:
        group = self.for_replay(key.group_id, create=value is not None)
        if group is not None:
            group.states = StatePartitions() if value is None else to_state_partitions(value)


def _changed(group: ShareGroup, states: StatePartitions) -> list[CoordinatorRecord]:
    return [] if states == group.states else [state_partitions_record(group.group_id, states)]


def _member(group: ShareGroup, member_id: str) -> ShareMember:
    return group.members.get(member_id) or ShareMember(member_id=member_id)
