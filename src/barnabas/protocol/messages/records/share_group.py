"""Records of `__consumer_offsets` with the state of share groups."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, int8, int32, int64, string, uuid


class ShareGroupMemberMetadataKey(Message, api_key=10, versions="0"):
    group_id: str = string()
    member_id: str = string()


class ShareGroupMemberMetadataValue(Message, api_key=10, versions="0", flexible="0+"):
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)


class ShareGroupMetadataKey(Message, api_key=11, versions="0"):
    group_id: str = string()


class ShareGroupMetadataValue(Message, api_key=11, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64()


class ShareGroupTargetAssignmentMetadataKey(Message, api_key=12, versions="0"):
    group_id: str = string()


class ShareGroupTargetAssignmentMetadataValue(Message, api_key=12, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)


class ShareGroupTargetAssignmentMemberKey(Message, api_key=13, versions="0"):
    group_id: str = string()
    member_id: str = string()


class TopicPartition(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ShareGroupTargetAssignmentMemberValue(Message, api_key=13, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition] = array(TopicPartition)


class ShareGroupCurrentMemberAssignmentKey(Message, api_key=14, versions="0"):
    group_id: str = string()
    member_id: str = string()


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ShareGroupCurrentMemberAssignmentValue(Message, api_key=14, versions="0", flexible="0+"):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)


class ShareGroupStatePartitionMetadataKey(Message, api_key=15, versions="0"):
    group_id: str = string()


class TopicPartitionsInfo(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class TopicInfo(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()


class ShareGroupStatePartitionMetadataValue(Message, api_key=15, versions="0", flexible="0+"):
    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: list[TopicInfo] = array(TopicInfo)
