"""The consumer group protocol of KIP-848, and the metadata that consumers embed in the classic protocol."""

from __future__ import annotations

from barnabas.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    byte_string,
    int8,
    int16,
    int32,
    string,
    structure,
    uuid,
)

CONSUMER_PROTOCOL = "consumer"
"""Protocol type of consumers; Connect workers and others use different ones."""


class ConsumerGroupHeartbeatTopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupHeartbeatRequest(Message, api_key=68, versions="0-1", flexible="0+"):
    """Joins, keeps alive and leaves a consumer group, and reconciles its assignment."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(string, nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[ConsumerGroupHeartbeatTopicPartitions] | None = array(
        ConsumerGroupHeartbeatTopicPartitions, nullable="0+", default=None
    )


class ConsumerGroupHeartbeatAssignment(Struct):
    topic_partitions: list[ConsumerGroupHeartbeatTopicPartitions] = array(
        ConsumerGroupHeartbeatTopicPartitions
    )


class ConsumerGroupHeartbeatResponse(Message, api_key=68, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ConsumerGroupHeartbeatAssignment | None = structure(
        ConsumerGroupHeartbeatAssignment, nullable="0+", default=None
    )


class ConsumerGroupDescribeRequest(Message, api_key=69, versions="0-1", flexible="0+"):
    """Asks for state and members of consumer groups."""

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


class ConsumerGroupDescribeTopicPartitions(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class ConsumerGroupDescribeAssignment(Struct):
    topic_partitions: list[ConsumerGroupDescribeTopicPartitions] = array(ConsumerGroupDescribeTopicPartitions)


class Member(Struct):
    member_id: str = string()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    assignment: ConsumerGroupDescribeAssignment = structure(ConsumerGroupDescribeAssignment)
    target_assignment: ConsumerGroupDescribeAssignment = structure(ConsumerGroupDescribeAssignment)
    member_type: int = int8("1+", default=-1, ignorable=True)


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-0x80000000)


class ConsumerGroupDescribeResponse(Message, api_key=69, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)


class ConsumerProtocolSubscriptionTopicPartition(Struct):
    topic: str = string("1+")
    partitions: list[int] = array(int32, "1+")


class ConsumerProtocolSubscription(Message, versions="0-3"):
    """Subscription and owned partitions of a consumer, sent to the leader of its classic group."""

    topics: list[str] = array(string)
    user_data: bytes | None = byte_string(nullable="0+", default=None)
    owned_partitions: list[ConsumerProtocolSubscriptionTopicPartition] = array(
        ConsumerProtocolSubscriptionTopicPartition, "1+", ignorable=True
    )
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignmentTopicPartition(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    """Assignment of a member, made by the leader of its classic group."""

    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition] = array(
        ConsumerProtocolAssignmentTopicPartition
    )
    user_data: bytes | None = byte_string(nullable="0+", default=None)
