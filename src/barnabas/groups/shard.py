"""One partition of `__consumer_offsets`: the groups of every type that hash to it, and their offsets.

State that a replay restores is changed in `replay` only. Behaviour of a group type is in its manager
(`classic/`, `consumer/`, ...); the shard selects it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from functools import partial
from typing import Any, TypeVar

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.common.types import TopicPartition
from barnabas.coordination import PARKED, CoordinatorRecord, CoordinatorResult, ProducerIdAndEpoch
from barnabas.groups.classic.group import ClassicGroup
from barnabas.groups.classic.manager import ClassicGroupManager
from barnabas.groups.classic.member import JoinRequest, protocol_bytes
from barnabas.groups.consumer.group import ConsumerGroup
from barnabas.groups.consumer.manager import ConsumerGroupManager
from barnabas.groups.group import Committer, Group, GroupDeadline, GroupType, PartitionCheck, any_partition
from barnabas.groups.manager import GroupManager, ShardContext
from barnabas.groups.memory_budget import OFFSET_BYTES
from barnabas.groups.modern import ModernGroup
from barnabas.groups.offsets import NO_EXPIRY, Committed, Offsets, weight_of
from barnabas.groups.records import offset_record, offset_tombstone
from barnabas.groups.results import GroupResult, Respond
from barnabas.groups.share.manager import ShareGroupManager
from barnabas.groups.streams.manager import StreamsGroupManager
from barnabas.protocol.coordinator_records import (
    GROUP_RECORDS,
    UnknownRecordTypeError,
    decode_key,
    decode_value,
)
from barnabas.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupResponse,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)
from barnabas.protocol.messages.records.group import OffsetCommitKey, OffsetCommitValue
from barnabas.records import Record

R = TypeVar("R")
logger = rate_limited_logger(__name__)


class GroupShard:
    def __init__(self, context: ShardContext) -> None:
        self.context = context
        self.settings = context.settings
        self.groups = context.groups
        self.offsets = context.offsets
        self.classic = ClassicGroupManager(context)
        self.consumer = ConsumerGroupManager(context, self.classic)
        self.streams = StreamsGroupManager(context)
        self.share = ShareGroupManager(context)
        kinds: tuple[GroupManager[Any], ...] = (self.classic, self.consumer, self.streams, self.share)
        self._kinds = {kind.group_type: kind for kind in kinds}
        self._replays = {key: replay for kind in kinds for key, replay in kind.replays().items()}

    def find(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def _kind(self, group: Group) -> GroupManager[Any]:
        return self._kinds[group.group_type]

    def handle(
        self, group_id: str, operation: Callable[[GroupShard], CoordinatorResult[R]]
    ) -> CoordinatorResult[R]:
        """Run an operation on a group, and note that its members or their metadata may have changed."""
        result = operation(self)
        if result.records or not isinstance(self.groups.get(group_id), ModernGroup):
            self.context.ledger.changed(self.groups, group_id)
        return result

    # -- members of the classic protocol ------------------------------------------------------------

    def join(self, joining: JoinRequest) -> CoordinatorResult[JoinGroupResponse]:
        """Consumer groups accept members of either protocol; an empty group of another type becomes a classic group."""
        result: CoordinatorResult[JoinGroupResponse] = CoordinatorResult(PARKED)
        group = self.groups.get(joining.request.group_id)
        size = protocol_bytes(joining.protocols)
        self.context.ledger.check_metadata(len(joining.request.protocols), size)
        self.context.ledger.check_bytes(size)
        if isinstance(group, ConsumerGroup) and group.members:
            self.consumer.classic_members.join(group, joining, result)
        elif group is None or isinstance(group, ClassicGroup):
            self.classic.join(joining, result)
        elif group.group_type is GroupType.SHARE or not group.is_empty:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{group.group_id} is a {group.group_type.value} group"
            )
        else:
            self._join_in_place_of(group, joining, result)
        if result.response is not PARKED:
            joining.compatible(result.response)
        return result

    def _join_in_place_of(self, group: Group, joining: JoinRequest, result: GroupResult) -> None:
        self.classic.join(joining, result)
        result.records[:0] = group.tombstones()

        def revert() -> None:
            self.groups[group.group_id] = group

        result.revert = revert

    def sync(self, request: SyncGroupRequest, respond: Respond) -> CoordinatorResult[SyncGroupResponse]:
        result: CoordinatorResult[SyncGroupResponse] = CoordinatorResult(PARKED)
        group = self._joined(request.group_id)
        if request.assignments:
            self.context.ledger.check_bytes(sum(len(one.assignment) for one in request.assignments))
        if isinstance(group, ConsumerGroup):
            result.response = self.consumer.classic_members.sync(group, request)
        else:
            self.classic.membership.sync(group, request, respond, result)
        return result

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        group = self._joined(request.group_id)
        sender = request.member_id, request.group_instance_id, request.generation_id
        if isinstance(group, ConsumerGroup):
            return self.consumer.classic_members.heartbeat(group, *sender)
        return self.classic.membership.heartbeat(group, *sender)

    def leave(self, group_id: str, leavers: list[MemberIdentity]) -> CoordinatorResult[LeaveGroupResponse]:
        result = CoordinatorResult(LeaveGroupResponse())
        group = self._joined(group_id)
        if isinstance(group, ConsumerGroup):
            result.response.members = self.consumer.classic_members.leave(group, leavers, result)
        else:
            result.response.members = self.classic.leave(group, leavers, result)
        return result

    def _joined(self, group_id: str) -> ClassicGroup | ConsumerGroup:
        """Return the group of a member; raise UNKNOWN_MEMBER_ID if it does not exist."""
        group = self.groups.get(group_id)
        if not isinstance(group, ClassicGroup | ConsumerGroup):
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group_id} has no members")
        return group

    # -- what happens to groups of every type -------------------------------------------------------

    def deadline_reached(self, deadline: GroupDeadline) -> CoordinatorResult[None]:
        result: CoordinatorResult[None] = CoordinatorResult(None)
        group = self.groups.get(deadline.group_id)
        if group is not None:
            self._kind(group).deadline_reached(group, deadline, result)
        return result

    def topics_changed(self, changed: Set[str], deleted: Set[str]) -> None:
        """Topics were created or deleted (then they are in both sets), or their partitions or racks changed."""
        for group in list(self.groups.values()):
            self._kind(group).topics_changed(group, changed, deleted)

    def delete_group(self, group_id: str) -> CoordinatorResult[None]:
        group = self.find(group_id)
        group.check_deletion()
        records = _offset_tombstones(group_id, self._all_partitions(group_id))
        return CoordinatorResult(None, [*records, *group.tombstones()])

    # -- offsets ------------------------------------------------------------------------------------

    def check_commit(self, group_id: str, committer: Committer) -> PartitionCheck:
        """Raise if the sender may not commit offsets; the result checks single partitions."""
        group = self.groups.get(group_id)
        if group is not None:
            return self._kinds[group.group_type].check_commit(group, committer)
        if committer.epoch >= 0:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id} has no members")
        return any_partition

    def commit(
        self, group_id: str, offsets: list[tuple[TopicPartition, Committed]]
    ) -> CoordinatorResult[None]:
        """Store offsets; call `check_commit` first."""
        ledger, longest = self.context.ledger, OFFSET_BYTES + self.settings.offset_metadata_max_bytes
        if group_id not in self.groups or ledger.offset_bytes + len(offsets) * longest > ledger.bounds.size:
            self._check_room(group_id, offsets)
        records = [
            offset_record(group_id, tp, committed, partial(self._store, group_id, tp, committed))
            for tp, committed in offsets
        ]
        return CoordinatorResult(None, records)

    def _check_room(self, group_id: str, offsets: list[tuple[TopicPartition, Committed]]) -> None:
        """Raise if the offsets exceed the budget; replacing existing ones is always allowed."""
        ledger = self.context.ledger
        if group_id not in self.groups:
            ledger.check_group()
        known = self.offsets.of_group(group_id)
        more = (weight_of(committed) - weight_of(known.get(tp)) for tp, committed in offsets)
        ledger.check_offsets(sum(each for each in more if each > 0))

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> None:
        group = self.groups.get(group_id)
        if group is not None:
            group.check_fetch(member_id, epoch)

    def committed(self, group_id: str) -> Offsets:
        return self.offsets.of_group(group_id)

    def delete_offset(self, group: Group, tp: TopicPartition, result: GroupResult) -> ErrorCode:
        if group.consumes(tp.topic):
            return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        if tp in self.offsets.of_group(group.group_id):
            result.records.append(offset_tombstone(group.group_id, tp))
        return ErrorCode.NONE

    def _all_partitions(self, group_id: str) -> set[TopicPartition]:
        return self.offsets.pending_partitions(group_id) | self.offsets.of_group(group_id).keys()

    def expire_offsets(self, group_id: str) -> CoordinatorResult[None]:
        """Expire offsets, and the group itself once it is empty."""
        group = self.groups.get(group_id)
        if group is None or not group.expires:
            return CoordinatorResult(None)
        offsets = self.offsets.of_group(group_id)
        pending = self.offsets.pending_partitions(group_id)
        now_ms = self.context.clock.expiry_ms()
        expired = _expired_offsets(group, offsets, pending, now_ms, self.settings.offsets_retention_ms)
        records = _offset_tombstones(group_id, expired)
        all_gone = len(expired) == len(offsets) and not pending
        if all_gone and group.is_empty and not group.is_awaited:
            records += group.tombstones()
        return CoordinatorResult(None, records)

    def forget_topics(self, group_id: str, topics: set[str]) -> CoordinatorResult[None]:
        """Drop the offsets of deleted topics."""
        removed_topics = [tp for tp in self._all_partitions(group_id) if tp.topic in topics]
        return CoordinatorResult(None, _offset_tombstones(group_id, removed_topics))

    # -- replaying ----------------------------------------------------------------------------------

    def replay(self, record: Record, producer: ProducerIdAndEpoch | None) -> None:
        try:
            key = decode_key(GROUP_RECORDS, record.key)
        except UnknownRecordTypeError as error:
            logger.warning("a record of __consumer_offsets is skipped: %s", error)
            return
        value = None if record.value is None else decode_value(GROUP_RECORDS, key, record.value)
        if isinstance(key, OffsetCommitKey):
            self._replay_offset(key, value, record.offset, producer)
        elif (replay := self._replays.get(type(key))) is not None:
            replay(key, value)

    def _replay_offset(
        self, key: OffsetCommitKey, value: object, log_offset: int, producer: ProducerIdAndEpoch | None
    ) -> None:
        tp = TopicPartition(key.topic, key.partition)
        if not isinstance(value, OffsetCommitValue):
            self.offsets.remove(key.group, tp)
            return
        committed = Committed(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
        )
        self._store(key.group, tp, committed, log_offset, producer)

    def _store(
        self,
        group_id: str,
        tp: TopicPartition,
        committed: Committed,
        log_offset: int,
        producer: ProducerIdAndEpoch | None,
    ) -> None:
        if group_id not in self.groups:
            self.groups[group_id] = self.classic.new_group(group_id)
            self.context.ledger.changed(self.groups, group_id)
        self.offsets.store(group_id, tp, committed.at(log_offset), producer)

    def complete_transaction(self, producer: ProducerIdAndEpoch, *, committed: bool) -> None:
        self.offsets.complete(producer, committed=committed)

    def loaded(self) -> None:
        self.context.is_live = True
        self.context.ledger.changed(self.groups, *self.groups)
        for group in self.groups.values():
            self._kind(group).loaded(group)

    def unloaded(self) -> None:
        self.context.deadlines.clear()
        self.context.ledger.changed(self.groups, *self.groups)
        self.offsets.unload()
        for group in self.groups.values():
            self._kind(group).unloaded(group)
        self.groups.clear()


def _offset_tombstones(group_id: str, partitions: Iterable[TopicPartition]) -> list[CoordinatorRecord]:
    return [offset_tombstone(group_id, tp) for tp in sorted(partitions)]


def _expired_offsets(
    group: Group, offsets: Offsets, pending: set[TopicPartition], now_ms: int, retention_ms: int
) -> list[TopicPartition]:
    """Offsets that exceed offsets.retention.minutes (KIP-211). Offsets in open transactions stay."""
    since = group.retained_since()
    if since is None:
        return []
    return [
        tp
        for tp, committed in offsets.items()
        if tp not in pending
        and _is_over(committed, since(committed), now_ms, retention_ms)
        and not group.consumes(tp.topic)  # last: it compares the names of all members
    ]


def _is_over(committed: Committed, since_ms: int, now_ms: int, retention_ms: int) -> bool:
    if committed.expire_ms != NO_EXPIRY:
        return now_ms >= committed.expire_ms
    return now_ms - since_ms >= retention_ms
