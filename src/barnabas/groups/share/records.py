"""The records of share groups, as Apache Kafka 4.3 writes them."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.coordination.shard import CoordinatorRecord
from barnabas.groups.members import Client
from barnabas.groups.modern import Assignment
from barnabas.groups.records import reason_headers
from barnabas.groups.share.member import MemberState, ShareMember
from barnabas.groups.share.state_partitions import NamedPartitions, Partitions, StatePartitions
from barnabas.protocol.coordinator_records import encode_key, encode_versioned
from barnabas.protocol.messages.share_group_records import (
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
from barnabas.protocol.schema import Message

VERSION = 0


def epoch_record(group_id: str, epoch: int, metadata_hash: int, reason: str) -> CoordinatorRecord:
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    key = encode_key(ShareGroupMetadataKey(group_id=group_id))
    return CoordinatorRecord(key, encode_versioned(value, VERSION), reason_headers(reason))


def member_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """What the member said of itself."""
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client.client_id,
        client_host=member.client.host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
    )
    return _record(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def with_subscription(member: ShareMember, value: ShareGroupMemberMetadataValue) -> ShareMember:
    """The member after a replay of `member_record`."""
    return member.changed(
        rack_id=value.rack_id,
        client=Client(value.client_id, value.client_host),
        subscribed_topic_names=frozenset(value.subscribed_topic_names),
    )


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return _record(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_record(group_id: str, member_id: str, target: Assignment) -> CoordinatorRecord:
    value = ShareGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic, partitions=sorted(indexes)) for topic, indexes in target.items()
        ]
    )
    return _record(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def current_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """What the member reads."""
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=MemberState.STABLE,
        assigned_partitions=[
            TopicPartitions(topic_id=topic, partitions=sorted(indexes))
            for topic, indexes in member.assigned.items()
        ],
    )
    key = ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return _record(key, value)


def with_progress(member: ShareMember, value: ShareGroupCurrentMemberAssignmentValue) -> ShareMember:
    """The member after a replay of `current_record`."""
    return member.changed(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        assigned={each.topic_id: frozenset(each.partitions) for each in value.assigned_partitions},
    )


def state_partitions_record(group_id: str, states: StatePartitions) -> CoordinatorRecord:
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_infos(states.initializing),
        initialized_topics=_infos(states.initialized),
        deleting_topics=[
            TopicInfo(topic_id=topic, topic_name=name) for topic, name in states.deleting.items()
        ],
    )
    return _record(ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


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


def _record(key: Message, value: Message) -> CoordinatorRecord:
    return CoordinatorRecord(encode_key(key), encode_versioned(value, VERSION))


# -- tombstones -----------------------------------------------------------------------------------------


def _tombstone(key: Message) -> CoordinatorRecord:
    return CoordinatorRecord(encode_key(key), None)


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """In this order: a reader that meets the last of them must have let go of everything else."""
    return [
        _tombstone(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        _tombstone(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        _tombstone(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> list[CoordinatorRecord]:
    return [
        *(record for member_id in member_ids for record in member_tombstones(group_id, member_id)),
        _tombstone(ShareGroupTargetAssignmentMetadataKey(group_id=group_id)),
        _tombstone(ShareGroupStatePartitionMetadataKey(group_id=group_id)),
        _tombstone(ShareGroupMetadataKey(group_id=group_id)),
    ]
