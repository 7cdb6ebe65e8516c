"""One partition of `__consumer_offsets`: the groups that hash to it, and their offsets.

Whatever a replay of the partition brings back is changed in `replay` alone, and there only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

from barnabas.clock import Clock
from barnabas.coordination.deadlines import Deadlines
from barnabas.coordination.shard import CoordinatorRecord, Producer
from barnabas.errors import ErrorCode, KafkaError
from barnabas.groups.classic import UNKNOWN_MEMBER, ClassicGroup, State
from barnabas.groups.expiry import expired_offsets
from barnabas.groups.membership import Joining, Membership
from barnabas.groups.offsets import Committed, Offsets, OffsetStore
from barnabas.groups.phases import Awaited, Deadline, Phases
from barnabas.groups.records import group_tombstone, offset_record, offset_tombstone
from barnabas.groups.settings import GroupSettings
from barnabas.groups.step import Respond, Step, join_error
from barnabas.groups.subscriptions import CONSUMER_PROTOCOL
from barnabas.groups.written import confirm, from_value
from barnabas.protocol.coordinator_records import (
    GROUP_RECORDS,
    UnknownRecordTypeError,
    decode_key,
    decode_value,
)
from barnabas.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from barnabas.protocol.messages.groups import (
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from barnabas.records.record import Record
from barnabas.types import TopicPartition

logger = logging.getLogger(__name__)


class GroupShard:
    def __init__(self, settings: GroupSettings, clock: Clock, deadlines: Deadlines[Deadline]) -> None:
        self.settings = settings
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = OffsetStore()
        self._clock = clock
        self._deadlines = deadlines
        self._phases = Phases(settings, clock, deadlines)
        self._membership = Membership(self._phases)
        self._is_live = False

    def find(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    # -- members ------------------------------------------------------------------------------------

    def join(self, joining: Joining, step: Step) -> None:
        """Join a group; one that nobody has heard of begins with a member that has no id yet."""
        request = joining.request
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_id != UNKNOWN_MEMBER:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {request.group_id} has no members")
            group = ClassicGroup(request.group_id, self._clock.now_ms())
        self._membership.join(group, joining, step)
        self.groups[group.group_id] = group

    def sync(self, request: SyncGroupRequest, respond: Respond, step: Step) -> None:
        self._membership.sync(self._joined(request.group_id), request, respond, step)

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        return self._membership.heartbeat(self._joined(group_id), member_id, instance_id, generation)

    def leave(self, group_id: str, leavers: list[MemberIdentity], step: Step) -> list[MemberResponse]:
        group = self._joined(group_id)
        responses = self._membership.leave(group, leavers, step)
        self._drop_if_idle(group)
        return responses

    def _joined(self, group_id: str) -> ClassicGroup:
        """The group that a member speaks of; without it, it cannot be a member."""
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group_id} has no members")
        return group

    def deadline_reached(self, deadline: Deadline, step: Step) -> None:
        group = self.groups.get(deadline.group_id)
        if group is None:
            return
        if deadline.awaited is Awaited.HEARTBEAT:
            self._membership.heartbeat_overdue(group, deadline.member_id, step)
        elif deadline.awaited is Awaited.SYNC:
            self._phases.sync_overdue(group, step)
        elif group.state is State.PREPARING_REBALANCE:
            if deadline.awaited is Awaited.JOIN:
                self._phases.complete_join(group, step)
            else:
                self._phases.end_initial_delay(group, step)
        self._drop_if_idle(group)

    def _drop_if_idle(self, group: ClassicGroup) -> None:
        if group.is_idle and not self.offsets.of_group(group.group_id):
            self.groups.pop(group.group_id, None)

    # -- offsets ------------------------------------------------------------------------------------

    def check_commit(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, *, in_transaction: bool
    ) -> None:
        """May this sender commit offsets? Who is outside of a group may, as long as it has no members."""
        group = self.groups.get(group_id)
        if group is None:
            if generation >= 0:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id} has no members")
            return
        if generation < 0 and group.state is State.EMPTY:
            return
        if generation >= 0 or member_id != UNKNOWN_MEMBER or instance_id is not None:
            member = group.check_member(member_id, instance_id)
            group.check_generation(generation)
            if group.state in (State.STABLE, State.PREPARING_REBALANCE):
                self._phases.expect_heartbeat(group, member)
        elif not in_transaction:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"group {group_id} has members; only they may commit its offsets",
            )
        if group.state is State.COMPLETING_REBALANCE and not in_transaction:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def commit(
        self, group_id: str, offsets: Iterable[tuple[TopicPartition, Committed]]
    ) -> list[CoordinatorRecord]:
        """The records of a commit; `check_commit` comes first."""
        return [
            offset_record(group_id, place, committed, partial(self._store, group_id, place, committed))
            for place, committed in offsets
        ]

    def committed(self, group_id: str) -> Offsets:
        return self.offsets.of_group(group_id)

    def delete_offset(self, group: ClassicGroup, place: TopicPartition, step: Step) -> ErrorCode:
        if group.consumes(place.topic):
            return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        if place in self.offsets.of_group(group.group_id):
            step.records.append(offset_tombstone(group.group_id, place))
        return ErrorCode.NONE

    def check_offset_deletion(self, group: ClassicGroup) -> None:
        """With members that are not consumers nobody can tell which offsets are in use."""
        if group.state is not State.EMPTY and group.protocol_type != CONSUMER_PROTOCOL:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {group.group_id} has members")

    # -- administration -----------------------------------------------------------------------------

    def delete_group(self, group_id: str, step: Step) -> None:
        group = self.find(group_id)
        if group.state is not State.EMPTY:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {group_id} has members")
        self._bury(group_id, self._all_places(group_id), step)
        step.records.append(group_tombstone(group_id))

    def _all_places(self, group_id: str) -> set[TopicPartition]:
        return self.offsets.pending_places(group_id) | self.offsets.of_group(group_id).keys()

    def _bury(self, group_id: str, places: Iterable[TopicPartition], step: Step) -> None:
        step.records += [offset_tombstone(group_id, place) for place in sorted(places)]

    def expire_offsets(self, group_id: str, step: Step) -> None:
        """Drop what has outlived its retention, and the group itself when nothing is left of it."""
        group = self.groups.get(group_id)
        if group is None:
            return
        offsets = self.offsets.of_group(group_id)
        pending = self.offsets.pending_places(group_id)
        expired = expired_offsets(
            group, offsets, pending, self._clock.now_ms(), self.settings.offsets_retention_ms
        )
        self._bury(group_id, expired, step)
        all_gone = len(expired) == len(offsets) and not pending
        if all_gone and group.state is State.EMPTY and not group.pending_joins:
            step.records.append(group_tombstone(group_id))

    def forget_topics(self, group_id: str, topics: set[str], step: Step) -> None:
        """Topics were deleted: offsets in them mean nothing any more."""
        gone = [place for place in self._all_places(group_id) if place.topic in topics]
        self._bury(group_id, gone, step)

    # -- replaying ----------------------------------------------------------------------------------

    def replay(self, record: Record, producer: Producer | None) -> None:
        try:
            key = decode_key(GROUP_RECORDS, record.key)
        except UnknownRecordTypeError as error:
            logger.warning("a record of __consumer_offsets is skipped: %s", error)
            return
        value = None if record.value is None else decode_value(GROUP_RECORDS, key, record.value)
        if isinstance(key, OffsetCommitKey):
            self._replay_offset(key, value, record.offset, producer)
        elif isinstance(key, GroupMetadataKey):
            self._replay_group(key.group, value)

    def _replay_offset(
        self, key: OffsetCommitKey, value: object, log_offset: int, producer: Producer | None
    ) -> None:
        place = TopicPartition(key.topic, key.partition)
        if not isinstance(value, OffsetCommitValue):
            self.offsets.remove(key.group, place)
            return
        committed = Committed(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
        )
        self._store(key.group, place, committed, log_offset, producer)

    def _store(
        self,
        group_id: str,
        place: TopicPartition,
        committed: Committed,
        log_offset: int,
        producer: Producer | None,
    ) -> None:
        if group_id not in self.groups:
            self.groups[group_id] = ClassicGroup(group_id, self._clock.now_ms())
        self.offsets.store(group_id, place, committed._replace(log_offset=log_offset), producer)

    def _replay_group(self, group_id: str, value: object) -> None:
        if not isinstance(value, GroupMetadataValue):
            if group := self.groups.pop(group_id, None):
                group.transition(State.DEAD, self._clock.now_ms())
            return
        if self._is_live and group_id in self.groups:
            confirm(self.groups[group_id], value)
        else:
            self.groups[group_id] = from_value(group_id, value, self._clock.now_ms())

    def complete_transaction(self, producer: Producer, *, committed: bool) -> None:
        self.offsets.complete(producer, committed=committed)

    def loaded(self) -> None:
        """Members that were there when the log was written have a session timeout's time to show up."""
        self._is_live = True
        for group in self.groups.values():
            for member in group.members.values():
                self._phases.expect_heartbeat(group, member)
            if len(group.members) > self.settings.max_size:
                self._phases.prepare(group, "the group is larger than group.max.size", Step())

    def unloaded(self) -> None:
        self._deadlines.clear()
        for group in self.groups.values():
            group.transition(State.DEAD, self._clock.now_ms())
            for member in group.members.values():
                if member.awaiting_join is not None:
                    member.awaiting_join(join_error(member.member_id, ErrorCode.NOT_COORDINATOR))
                if member.awaiting_sync is not None:
                    member.awaiting_sync(SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
        self.groups.clear()
