"""Records of consumer groups, as Apache Kafka 4.3 writes them."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.coordination import CoordinatorRecord
from barnabas.groups.classic.member import MemberProtocol
from barnabas.groups.consumer.member import ClassicMember, ConsumerMember, MemberState, Owned
from barnabas.groups.consumer.patterns import Resolved
from barnabas.groups.group import ClientInfo
from barnabas.groups.records import MemberKeys, PartitionGroupRecords, record, tombstone
from barnabas.protocol.messages.records.group import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)

_STATES = {int(state): state for state in MemberState}

_RECORDS = PartitionGroupRecords(
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
epoch_record = _RECORDS.epoch_record
target_epoch_record = _RECORDS.target_epoch_record
target_record = _RECORDS.target_record

member_tombstones = MemberKeys(
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupCurrentMemberAssignmentKey,
).tombstones


def member_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """The member's metadata."""
    classic = member.classic
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client.client_id,
        client_host=member.client.host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.pattern,
        rebalance_timeout_ms=member.rebalance_ms,
        server_assignor=member.assignor,
        classic_member_metadata=None if classic is None else _classic_value(classic),
    )
    return record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def _classic_value(classic: ClassicMember) -> ClassicMemberMetadata:
    protocols = [ClassicProtocol(name=one.name, metadata=one.metadata) for one in classic.protocols]
    return ClassicMemberMetadata(session_timeout_ms=classic.session_ms, supported_protocols=protocols)


def with_subscription(
    member: ConsumerMember, value: ConsumerGroupMemberMetadataValue, names: frozenset[str]
) -> ConsumerMember:
    """The member after a replay of `member_record`; `names` are the topics of the value."""
    written = value.classic_member_metadata
    classic = None
    if written is not None:
        protocols = tuple(MemberProtocol(one.name, one.metadata) for one in written.supported_protocols)
        classic = ClassicMember(written.session_timeout_ms, protocols)
    return member.changed(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client=ClientInfo(value.client_id, value.client_host),
        subscribed_topic_names=names,
        pattern=value.subscribed_topic_regex or "",
        rebalance_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=classic,
    )


def current_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """The member's epochs and partitions."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=_topic_partitions(member.owned),
        partitions_pending_revocation=_topic_partitions(member.revoking),
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return record(key, value)


def _topic_partitions(owned: Owned) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic,
            partitions=sorted(epochs),
            assignment_epochs=[epochs[index] for index in sorted(epochs)],
        )
        for topic, epochs in owned.items()
    ]


def with_progress(member: ConsumerMember, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
    """The member after a replay of `current_record`."""
    return member.changed(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=_STATES.get(value.state, MemberState.UNKNOWN),
        owned=_owned(value.assigned_partitions, value.member_epoch),
        revoking=_owned(value.partitions_pending_revocation, value.member_epoch),
    )


def _owned(partitions: Iterable[TopicPartitions], member_epoch: int) -> Owned:
    """Before Kafka 4.3 partitions had no assignment epochs."""
    owned: dict[bytes, dict[int, int]] = {}
    for topic in partitions:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned


def pattern_record(group_id: str, pattern: str, resolved: Resolved) -> CoordinatorRecord:
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.resolved_ms
    )
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern)
    return record(key, value)


# -- tombstones -----------------------------------------------------------------------------------------


def old_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    return tombstone(ConsumerGroupPartitionMetadataKey(group_id=group_id))


def pattern_tombstone(group_id: str, pattern: str) -> CoordinatorRecord:
    return tombstone(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern))


def group_tombstones(
    group_id: str, member_ids: Iterable[str], patterns: Iterable[str]
) -> list[CoordinatorRecord]:
    members = list(member_ids)
    return [
        *(
            tombstone(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=one))
            for one in members
        ),
        *(
            tombstone(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=one))
            for one in members
        ),
        tombstone(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)),
        *(tombstone(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=one)) for one in members),
        *(pattern_tombstone(group_id, pattern) for pattern in patterns),
        old_metadata_tombstone(group_id),
        tombstone(ConsumerGroupMetadataKey(group_id=group_id)),
    ]
