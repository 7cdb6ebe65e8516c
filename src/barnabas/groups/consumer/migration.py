"""Groups that change their type while they have members (KIP-848, "online migration").

- Upgrade: the first ConsumerGroupHeartbeat to a classic group of consumers makes it a consumer group. Its members keep
  their assignments and the classic protocol until they rejoin with the new one.
- Downgrade: when the last member of the new protocol leaves a consumer group in which others still use the
  classic protocol, it becomes a classic group again.

In both cases one batch has the tombstones of one type and the records of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from struct import Struct
from struct import error as StructError  # noqa: N812 - struct names its exception in lower case

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.coordination import CoordinatorRecord, CoordinatorResult, ProducerIdAndEpoch
from barnabas.groups.classic.group import ClassicGroup, ClassicGroupState
from barnabas.groups.classic.manager import ClassicGroupManager
from barnabas.groups.classic.member import ClassicGroupMember, Timeouts, protocol_bytes
from barnabas.groups.classic.records import READ_AT_ONCE, group_record
from barnabas.groups.consumer.group import ConsumerGroup
from barnabas.groups.consumer.member import ClassicMember, ConsumerMember, with_epoch
from barnabas.groups.consumer.records import (
    current_record,
    epoch_record,
    group_tombstones,
    member_record,
    target_epoch_record,
    target_record,
)
from barnabas.groups.group import DeadlineType, GroupDeadline
from barnabas.groups.manager import GroupManager
from barnabas.groups.modern import NO_ASSIGNMENT_YET, Assignment
from barnabas.groups.results import GroupResult
from barnabas.groups.topics import ImageTopics
from barnabas.protocol.codec import decode, decoder
from barnabas.protocol.coordinator_records import encode_versioned
from barnabas.protocol.messages.consumer import (
    CONSUMER_PROTOCOL,
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from barnabas.protocol.wire import ProtocolError

# -- What members of the classic protocol embed in their requests: subscriptions and assignments of consumers

HIGHEST_VERSION = 3
"""A newer version only appends fields, so it is parsed as the highest known version."""

MAX_ELEMENTS = 10_000
"""Names, owned topics and their partitions in one subscription: the limit of a request that is served in one step."""

_VERSION = Struct(">h")


class EmbeddedError(ValueError):
    """Malformed subscription or assignment of a member."""


def version_of(data: bytes) -> int:
    try:
        version = int(_VERSION.unpack_from(data)[0])
    except StructError:
        raise EmbeddedError("the version is missing") from None
    if version < 0:
        raise EmbeddedError(f"version {version}")
    return min(version, HIGHEST_VERSION)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Parsed in one step, therefore limited to MAX_ELEMENTS."""
    read = decoder(ConsumerProtocolSubscription, version_of(data))
    try:
        return read(memoryview(data), _VERSION.size, len(data), MAX_ELEMENTS)[0]
    except ProtocolError as error:
        raise EmbeddedError(str(error)) from None


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Empty for a member that has not synced yet."""
    if not data:
        return ConsumerProtocolAssignment()
    try:
        return decode(ConsumerProtocolAssignment, version_of(data), data, _VERSION.size)[0]
    except ProtocolError as error:
        raise EmbeddedError(str(error)) from None


def write_assignment(assignment: Assignment, topics: ImageTopics, version: int) -> bytes:
    """Partitions by topic name; deleted topics are omitted."""
    named = ((topics.name_of(topic), sorted(indexes)) for topic, indexes in assignment.items())
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=indexes)
            for name, indexes in named
            if name is not None
        ]
    )
    return encode_versioned(message, version)


logger = rate_limited_logger(__name__)

UPGRADE = ("upgrade", "bidirectional")
DOWNGRADE = ("downgrade", "bidirectional")
DISABLED = "disabled"


class Migration:
    def __init__(self, kind: GroupManager[ConsumerGroup], classic: ClassicGroupManager) -> None:
        self._kind = kind
        self._classic = classic
        self._context = kind.context

    # -- up -----------------------------------------------------------------------------------------

    def find_or_convert(self, group_id: str, result: GroupResult, *, create: bool) -> ConsumerGroup:
        """Return the consumer group of a heartbeat; upgrade a classic group if a member joins."""
        group = self._context.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is None:
            if create:
                return ConsumerGroup(group_id)
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        if not create or not isinstance(group, ClassicGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if group.is_empty or not group.members:  # they left before their first generation
            result.records += group.tombstones()
            return ConsumerGroup(group_id)
        self._check_upgrade(group)
        return self._upgrade(group, result)

    def _check_upgrade(self, group: ClassicGroup) -> None:
        settings = self._context.settings
        if settings.migration_policy not in UPGRADE:
            raise _cannot_upgrade(group, "because online upgrade is disabled.")
        if group.protocol_type != CONSUMER_PROTOCOL:
            raise _cannot_upgrade(group, "because the group does not use the consumer embedded protocol.")
        if len(group.members) > settings.consumer_max_size:
            raise _cannot_upgrade(group, "because the group size exceeds the consumer group maximum size.")

    def _upgrade(self, group: ClassicGroup, result: GroupResult) -> ConsumerGroup:
        try:
            upgraded = self._as_consumer_group(group)
        except EmbeddedError:
            raise _cannot_upgrade(group, "because the embedded consumer protocol is malformed.") from None
        group.dismiss_all(ErrorCode.REBALANCE_IN_PROGRESS, result)
        result.records += group.tombstones()
        result.records += _records_of(upgraded, "a member joined with the consumer protocol")
        for member in group.members.values():
            self._kind.expect_heartbeat(group.group_id, member.member_id, member.timeouts.session_ms)
        logger.info("group %r becomes a consumer group", group.group_id)
        return upgraded

    def _as_consumer_group(self, group: ClassicGroup) -> ConsumerGroup:
        upgraded = ConsumerGroup(group.group_id)
        protocol = group.protocol or group.select_protocol()
        for member in group.members.values():
            self._take_over(group, member, protocol, upgraded)
        upgraded.set_epoch(group.generation, self._context.topics.hash_of(upgraded.subscribed_topics()))
        upgraded.set_assignment_epoch(group.generation, NO_ASSIGNMENT_YET)
        return upgraded

    def _take_over(
        self, group: ClassicGroup, member: ClassicGroupMember, protocol: str, upgraded: ConsumerGroup
    ) -> None:
        subscription = read_subscription(member.metadata(protocol) or member.protocols[0].metadata)
        written = read_assignment(member.assignment)
        if written.user_data:
            raise _cannot_upgrade(
                group,
                "because an unsupported custom assignor is in use. Please refer to the documentation or switch "
                "to a default assignor before re-attempting the upgrade.",
            )
        topics = self._context.topics
        found = ((topics.find(one.topic), one.partitions) for one in written.assigned_partitions)
        target = {topic.topic_id: frozenset(indexes) for topic, indexes in found if topic and indexes}
        upgraded.targets[member.member_id] = target
        upgraded.store(
            ConsumerMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                rack_id=subscription.rack_id or None,
                client=member.client,
                rebalance_ms=member.timeouts.rebalance_ms,
                subscribed_topic_names=frozenset(subscription.topics),
                classic=ClassicMember(member.timeouts.session_ms, tuple(member.protocols)),
                member_epoch=group.generation,
                previous_member_epoch=group.generation,
                owned=with_epoch(target, group.generation),
            )
        )

    # -- down ---------------------------------------------------------------------------------------

    def can_go_back(self, group: ConsumerGroup, without: Sequence[ConsumerMember]) -> bool:
        """True if only classic members would remain without these members."""
        settings = self._context.settings
        left = len(group.members) - len(without)
        is_new = sum(member.classic is None for member in without)
        return (
            left > 0
            and group.new_members == is_new
            and settings.migration_policy in DOWNGRADE
            and left <= settings.max_size
        )

    def can_go_back_with(self, group: ConsumerGroup, replaced: ConsumerMember | None) -> bool:
        """True if the static member that a classic one replaces is the last of the new protocol."""
        if replaced is None or replaced.classic is not None:
            return False
        settings = self._context.settings
        return (
            group.new_members == 1
            and settings.migration_policy in DOWNGRADE
            and len(group.members) <= settings.max_size
        )

    def go_back(
        self,
        group: ConsumerGroup,
        result: GroupResult,
        reason: str,
        *,
        without: Sequence[ConsumerMember] = (),
        joining: ConsumerMember | None = None,
        rebalance: bool = True,
    ) -> ClassicGroup:
        """Downgrade to a classic group; members that must rejoin learn it from their next heartbeat."""
        removed_topics = {member.member_id for member in without}
        replaced = group.static_members.get(joining.instance_id or "") if joining is not None else None
        left = [one for one in group.members.values() if one.member_id not in removed_topics | {replaced}]
        if joining is not None:
            left.append(joining)
        classic = self._as_classic_group(group, left)
        buried = [joining.member_id if joining and one == replaced else one for one in group.members]
        result.records += group_tombstones(group.group_id, buried, group.resolved)
        assignments = {member.member_id: member.assignment for member in classic.members.values()}
        classic.note(f"{reason}; the group is a classic one again")
        record = group_record(classic, assignments)
        effect = partial(self._went_back, classic, rebalance)
        result.records.append(record._replace(effect=effect))
        logger.info("group %r becomes a classic group", group.group_id)
        return classic

    def _as_classic_group(self, group: ConsumerGroup, members: Sequence[ConsumerMember]) -> ClassicGroup:
        now_ms = self._context.clock.now_ms()
        classic = ClassicGroup(group.group_id, now_ms)
        size = sum(protocol_bytes(member.classic.protocols) for member in members if member.classic)
        for member in members:
            assert member.classic is not None
            timeouts = Timeouts(member.rebalance_ms, member.classic.session_ms)
            classic.add(
                ClassicGroupMember(
                    member.member_id, member.instance_id, member.client, timeouts, member.classic.protocols
                ),
                CONSUMER_PROTOCOL,
                is_read=size <= READ_AT_ONCE,
            )
        classic.generation = classic.written_generation = group.epoch
        classic.state = ClassicGroupState.STABLE
        classic.protocol = classic.select_protocol()
        for member in members:
            known = classic.members[member.member_id]
            version = version_of(known.metadata(classic.protocol))
            known.assignment = write_assignment(group.target(member), self._context.topics, version)
        return classic

    def _went_back(
        self, classic: ClassicGroup, rebalance: bool, offset: int, producer: ProducerIdAndEpoch | None
    ) -> None:
        """Replace the group once the record is in the log."""
        self._context.groups[classic.group_id] = classic
        for type_ in (
            DeadlineType.INITIAL_DELAY,
            DeadlineType.JOIN,
            DeadlineType.SYNC,
        ):  # from when it was one before
            self._context.deadlines.cancel(GroupDeadline(type_, classic.group_id))
        for member in classic.members.values():
            self._kind.expect_nothing(classic.group_id, member.member_id)
            self._classic.rebalances.expect_heartbeat(classic, member)
        if rebalance:
            self._classic.rebalances.prepare(
                classic, "the group is a classic one again", CoordinatorResult(None)
            )


def _cannot_upgrade(group: ClassicGroup, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group {reason}",
    )


def _records_of(group: ConsumerGroup, reason: str) -> list[CoordinatorRecord]:
    group_id = group.group_id
    members = group.members.values()
    return [
        *(member_record(group_id, member) for member in members),
        epoch_record(group_id, group.epoch, group.metadata_hash, reason),
        *(target_record(group_id, member_id, target) for member_id, target in group.targets.items()),
        target_epoch_record(group_id, group.assignment_epoch, group.assigned_at_ms),
        *(current_record(group_id, member) for member in members),
    ]
