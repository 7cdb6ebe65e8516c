"""Share groups (KIP-932): membership, fetching, acknowledging, offsets."""

from __future__ import annotations

from barnabas.protocol.schema import (
    Message,
    Records,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    record_batches,
    string,
    structure,
    uuid,
)


class ShareGroupHeartbeatRequest(Message, api_key=76, versions="1", flexible="1+"):
    """Joins, keeps alive and leaves a share group."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(nullable="1+", default=None)
    subscribed_topic_names: list[str] | None = array(string, nullable="1+", default=None)


class ShareGroupHeartbeatTopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ShareGroupHeartbeatAssignment(Struct):
    topic_partitions: list[ShareGroupHeartbeatTopicPartitions] = array(ShareGroupHeartbeatTopicPartitions)


class ShareGroupHeartbeatResponse(Message, api_key=76, versions="1", flexible="1+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="1+", default=None)
    member_id: str | None = string(nullable="1+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ShareGroupHeartbeatAssignment | None = structure(
        ShareGroupHeartbeatAssignment, nullable="1+", default=None
    )


class ShareGroupDescribeRequest(Message, api_key=77, versions="1", flexible="1+"):
    """Asks for state and members of share groups."""

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


class ShareGroupDescribeTopicPartitions(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class ShareGroupDescribeAssignment(Struct):
    topic_partitions: list[ShareGroupDescribeTopicPartitions] = array(ShareGroupDescribeTopicPartitions)


class Member(Struct):
    member_id: str = string()
    rack_id: str | None = string(nullable="1+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    assignment: ShareGroupDescribeAssignment = structure(ShareGroupDescribeAssignment)


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="1+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-0x80000000)


class ShareGroupDescribeResponse(Message, api_key=77, versions="1", flexible="1+"):
    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)


class AcknowledgementBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array(int8)


class FetchPartition(Struct):
    partition_index: int = int32()
    partition_max_bytes: int = int32("0")
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


class FetchTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ShareFetchRequest(Message, api_key=78, versions="1-2", flexible="1+"):
    """Acquires records, and acknowledges earlier ones."""

    group_id: str | None = string(nullable="1+", default=None)
    member_id: str | None = string(nullable="1+")
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF)
    max_records: int = int32()
    batch_size: int = int32()
    share_acquire_mode: int = int8("2+", ignorable=True)
    is_renew_ack: bool = boolean("2+")
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32()
    leader_epoch: int = int32()


class AcquiredRecords(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_count: int = int16()


class ShareFetchPartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="1+", default=None)
    acknowledge_error_code: int = int16()
    acknowledge_error_message: str | None = string(nullable="1+", default=None)
    current_leader: LeaderIdAndEpoch = structure(LeaderIdAndEpoch)
    records: Records | None = record_batches()
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords)


class ShareFetchableTopicResponse(Struct):
    topic_id: bytes = uuid()
    partitions: list[ShareFetchPartitionData] = array(ShareFetchPartitionData)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="1+", default=None)


class ShareFetchResponse(Message, api_key=78, versions="1-2", flexible="1+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="1+", default=None)
    acquisition_lock_timeout_ms: int = int32()
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)


class AcknowledgePartition(Struct):
    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


class AcknowledgeTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[AcknowledgePartition] = array(AcknowledgePartition)


class ShareAcknowledgeRequest(Message, api_key=79, versions="1-2", flexible="1+"):
    """Acknowledges acquired records: accept, release, reject or renew."""

    group_id: str | None = string(nullable="1+", default=None)
    member_id: str | None = string(nullable="1+")
    share_session_epoch: int = int32()
    is_renew_ack: bool = boolean("2+")
    topics: list[AcknowledgeTopic] = array(AcknowledgeTopic)


class ShareAcknowledgePartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="1+", default=None)
    current_leader: LeaderIdAndEpoch = structure(LeaderIdAndEpoch)


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: bytes = uuid()
    partitions: list[ShareAcknowledgePartitionData] = array(ShareAcknowledgePartitionData)


class ShareAcknowledgeResponse(Message, api_key=79, versions="1-2", flexible="1+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="1+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+", ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = string()
    partitions: list[int] = array(int32)


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: str = string()
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = array(
        DescribeShareGroupOffsetsRequestTopic, nullable="0+"
    )


class DescribeShareGroupOffsetsRequest(Message, api_key=90, versions="0-1", flexible="0+"):
    """Asks for the start offsets of share groups."""

    groups: list[DescribeShareGroupOffsetsRequestGroup] = array(DescribeShareGroupOffsetsRequestGroup)


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = int32()
    start_offset: int = int64()
    leader_epoch: int = int32()
    lag: int = int64("1+", default=-1, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = string()
    topic_id: bytes = uuid()
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = array(
        DescribeShareGroupOffsetsResponsePartition
    )


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: str = string()
    topics: list[DescribeShareGroupOffsetsResponseTopic] = array(DescribeShareGroupOffsetsResponseTopic)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class DescribeShareGroupOffsetsResponse(Message, api_key=90, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    groups: list[DescribeShareGroupOffsetsResponseGroup] = array(DescribeShareGroupOffsetsResponseGroup)


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int = int32()
    start_offset: int = int64()


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = string()
    partitions: list[AlterShareGroupOffsetsRequestPartition] = array(AlterShareGroupOffsetsRequestPartition)


class AlterShareGroupOffsetsRequest(Message, api_key=91, versions="0", flexible="0+"):
    """Sets the start offsets of a share group."""

    group_id: str = string()
    topics: list[AlterShareGroupOffsetsRequestTopic] = array(AlterShareGroupOffsetsRequestTopic)


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = string()
    topic_id: bytes = uuid()
    partitions: list[AlterShareGroupOffsetsResponsePartition] = array(AlterShareGroupOffsetsResponsePartition)


class AlterShareGroupOffsetsResponse(Message, api_key=91, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = array(AlterShareGroupOffsetsResponseTopic)


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = string()


class DeleteShareGroupOffsetsRequest(Message, api_key=92, versions="0", flexible="0+"):
    """Deletes the offsets of a share group for some topics."""

    group_id: str = string()
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array(DeleteShareGroupOffsetsRequestTopic)


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = string()
    topic_id: bytes = uuid()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class DeleteShareGroupOffsetsResponse(Message, api_key=92, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = array(DeleteShareGroupOffsetsResponseTopic)
