"""Records of `__consumer_offsets`: offsets, classic groups and consumer groups."""

from __future__ import annotations

from barnabas.protocol.schema import (
    Message,
    Struct,
    array,
    byte_string,
    int8,
    int32,
    int64,
    string,
    structure,
    uuid,
)


class LegacyOffsetCommitKey(Message, api_key=0, versions="0"):
    group: str = string()
    topic: str = string()
    partition: int = int32()


class LegacyOffsetCommitValue(Message, api_key=0, versions="0"):
    offset: int = int64()
    metadata: str = string()
    commit_timestamp: int = int64()


class OffsetCommitKey(Message, api_key=1, versions="0"):
    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(Message, api_key=1, versions="0-4", flexible="4+"):
    """A group's position in one partition."""

    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: bytes = uuid("4+", tag=0, ignorable=True)


class GroupMetadataKey(Message, api_key=2, versions="0"):
    group: str = string()


class MemberMetadata(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = byte_string()
    assignment: bytes = byte_string()


class GroupMetadataValue(Message, api_key=2, versions="0-4", flexible="4+"):
    """A classic group: its generation, its leader and its members."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata)


class ConsumerGroupMetadataKey(Message, api_key=3, versions="0"):
    group_id: str = string()


class ConsumerGroupMetadataValue(Message, api_key=3, versions="0", flexible="0+"):
    """A consumer group's epoch."""

    epoch: int = int32()
    metadata_hash: int = int64(tag=0)


class ConsumerGroupPartitionMetadataKey(Message, api_key=4, versions="0"):
    group_id: str = string()


class PartitionMetadata(Struct):
    partition: int = int32()
    racks: list[str] = array(string)


class TopicMetadata(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata)


class ConsumerGroupPartitionMetadataValue(Message, api_key=4, versions="0", flexible="0+"):
    """The partition counts a consumer group last saw; no longer written since Kafka 4.0."""

    topics: list[TopicMetadata] = array(TopicMetadata)


class ConsumerGroupMemberMetadataKey(Message, api_key=5, versions="0"):
    group_id: str = string()
    member_id: str = string()


class ClassicProtocol(Struct):
    name: str = string()
    metadata: bytes = byte_string()


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


class ConsumerGroupMemberMetadataValue(Message, api_key=5, versions="0", flexible="0+"):
    """Metadata of a consumer group member, from its heartbeats."""

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = structure(
        ClassicMemberMetadata, nullable="0+", tag=0
    )


class ConsumerGroupTargetAssignmentMetadataKey(Message, api_key=6, versions="0"):
    group_id: str = string()


class ConsumerGroupTargetAssignmentMetadataValue(Message, api_key=6, versions="0", flexible="0+"):
    """The epoch of the target assignment."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)


class ConsumerGroupTargetAssignmentMemberKey(Message, api_key=7, versions="0"):
    group_id: str = string()
    member_id: str = string()


class TopicPartition(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupTargetAssignmentMemberValue(Message, api_key=7, versions="0", flexible="0+"):
    """Target assignment of a member."""

    topic_partitions: list[TopicPartition] = array(TopicPartition)


class ConsumerGroupCurrentMemberAssignmentKey(Message, api_key=8, versions="0"):
    group_id: str = string()
    member_id: str = string()


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Message, api_key=8, versions="0", flexible="0+"):
    """Current assignment of a member, and the partitions it still has to revoke."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupRegularExpressionKey(Message, api_key=16, versions="0"):
    group_id: str = string()
    regular_expression: str = string()


class ConsumerGroupRegularExpressionValue(Message, api_key=16, versions="0", flexible="0+"):
    """The topics a subscribed pattern resolved to."""

    topics: list[str] = array(string)
    version: int = int64()
    timestamp: int = int64()
