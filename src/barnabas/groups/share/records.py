"""Records of share groups, as Apache Kafka 4.3 writes them."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.coordination import CoordinatorRecord
from barnabas.groups.group import ClientInfo
from barnabas.groups.modern import partitions_of
from barnabas.groups.records import MemberKeys, PartitionGroupRecords, record, tombstone
from barnabas.groups.share.member import ShareMember, ShareMemberState
from barnabas.groups.share.state_partitions import NamedPartitions, Partitions, StatePartitions
from barnabas.protocol.messages.records.share_group import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicInfo,
    TopicPartition,
    TopicPartitions,
    TopicPartitionsInfo,
)

_RECORDS = PartitionGroupRecords(
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    TopicPartition,
)
epoch_record = _RECORDS.epoch_record
target_epoch_record = _RECORDS.target_epoch_record
target_record = _RECORDS.target_record

member_tombstones = MemberKeys(
    ShareGroupMemberMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupCurrentMemberAssignmentKey,
).tombstones


def member_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """The member's metadata."""
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client.client_id,
        client_host=member.client.host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
    )
    return record(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def with_subscription(
    member: ShareMember, value: ShareGroupMemberMetadataValue, names: frozenset[str]
) -> ShareMember:
    """The member after a replay of `member_record`; `names` are the topics of the value."""
    return member.changed(
        rack_id=value.rack_id,
        client=ClientInfo(value.client_id, value.client_host),
        subscribed_topic_names=names,
    )


def current_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """The member's epochs and partitions."""
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=ShareMemberState.STABLE,
        assigned_partitions=[
            TopicPartitions(topic_id=topic, partitions=sorted(indexes))
            for topic, indexes in member.assigned.items()
        ],
    )
    key = ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return record(key, value)


def with_progress(member: ShareMember, value: ShareGroupCurrentMemberAssignmentValue) -> ShareMember:
    """The member after a replay of `current_record`."""
    return member.changed(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        assigned={each.topic_id: partitions_of(each.partitions) for each in value.assigned_partitions},
    )


def state_partitions_record(group_id: str, states: StatePartitions) -> CoordinatorRecord:
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_infos(states.initializing),
        initialized_topics=_infos(states.initialized),
        deleting_topics=[
            TopicInfo(topic_id=topic, topic_name=name) for topic, name in states.deleting.items()
        ],
    )
    return record(ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def _infos(partitions: Partitions) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic, topic_name=each.name, partitions=sorted(each.partitions))
        for topic, each in partitions.items()
    ]


def to_state_partitions(value: ShareGroupStatePartitionMetadataValue) -> StatePartitions:
    return StatePartitions(
        _partitions(value.initializing_topics),
        _partitions(value.initialized_topics),
        {each.topic_id: each.topic_name for each in value.deleting_topics},
    )


def _partitions(infos: Iterable[TopicPartitionsInfo]) -> Partitions:
    return {each.topic_id: NamedPartitions(each.topic_name, frozenset(each.partitions)) for each in infos}


# -- tombstones -----------------------------------------------------------------------------------------


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> list[CoordinatorRecord]:
    return [
        *(record for member_id in member_ids for record in member_tombstones(group_id, member_id)),
        tombstone(ShareGroupTargetAssignmentMetadataKey(group_id=group_id)),
        tombstone(ShareGroupStatePartitionMetadataKey(group_id=group_id)),
        tombstone(ShareGroupMetadataKey(group_id=group_id)),
    ]
