"""Streams groups (KIP-1071)."""

from __future__ import annotations

from barnabas.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    structure,
    uint16,
)


class KeyValue(Struct):
    key: str = string()
    value: str = string()


class TopicInfo(Struct):
    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[KeyValue] = array(KeyValue)


class CopartitionGroup(Struct):
    source_topics: list[int] = array(int16)
    source_topic_regex: list[int] = array(int16)
    repartition_source_topics: list[int] = array(int16)


class StreamsGroupHeartbeatSubtopology(Struct):
    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    source_topic_regex: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array(string)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


class StreamsGroupHeartbeatTopology(Struct):
    epoch: int = int32()
    subtopologies: list[StreamsGroupHeartbeatSubtopology] = array(StreamsGroupHeartbeatSubtopology)


class TaskIds(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array(int32)


class Endpoint(Struct):
    host: str = string()
    port: int = uint16()


class TaskOffset(Struct):
    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


class StreamsGroupHeartbeatRequest(Message, api_key=88, versions="0-1", flexible="0+"):
    """Joins, keeps alive and leaves a streams group, and describes its topology."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    endpoint_information_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    topology: StreamsGroupHeartbeatTopology | None = structure(
        StreamsGroupHeartbeatTopology, nullable="0+", default=None
    )
    active_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    process_id: str | None = string(nullable="0+", default=None)
    user_endpoint: Endpoint | None = structure(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] | None = array(KeyValue, nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = array(TaskOffset, nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = array(TaskOffset, nullable="0+", default=None)
    shutdown_application: bool = boolean()


class Status(Struct):
    status_code: int = int8()
    status_detail: str = string()


class TopicPartition(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint = structure(Endpoint)
    active_partitions: list[TopicPartition] = array(TopicPartition)
    standby_partitions: list[TopicPartition] = array(TopicPartition)


class StreamsGroupHeartbeatResponse(Message, api_key=88, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str = string()
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    acceptable_recovery_lag_legacy: int = int32("0")
    task_offset_interval_ms: int = int32()
    acceptable_recovery_lag: int = int64("1+", default=-1, ignorable=True)
    status: list[Status] | None = array(Status, nullable="0+")
    active_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    topology_description_required: bool = boolean("1+")
    endpoint_information_epoch: int = int32()
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = array(
        EndpointToPartitions, nullable="0+", default=None
    )


class StreamsGroupDescribeRequest(Message, api_key=89, versions="0-1", flexible="0+"):
    """Asks for state, topology and members of streams groups."""

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()
    include_topology_description: bool = boolean("1+")


class TopologyDescriptionNode(Struct):
    name: str = string()
    node_type: int = int8()
    source_topics: list[str] = array(string)
    sink_topic: str | None = string(nullable="0+", default=None)
    stores: list[str] = array(string)
    successors: list[str] = array(string)


class TopologyDescriptionSubtopology(Struct):
    subtopology_id: str = string()
    nodes: list[TopologyDescriptionNode] = array(TopologyDescriptionNode)


class TopologyDescriptionGlobalStore(Struct):
    source: TopologyDescriptionNode = structure(TopologyDescriptionNode)
    processor: TopologyDescriptionNode = structure(TopologyDescriptionNode)


class TopologyDescription(Struct):
    """All nodes of a topology, for display (KIP-1331)."""

    subtopologies: list[TopologyDescriptionSubtopology] = array(TopologyDescriptionSubtopology)
    global_stores: list[TopologyDescriptionGlobalStore] = array(TopologyDescriptionGlobalStore)


class StreamsGroupDescribeSubtopology(Struct):
    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    repartition_sink_topics: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)


class StreamsGroupDescribeTopology(Struct):
    epoch: int = int32()
    subtopologies: list[StreamsGroupDescribeSubtopology] | None = array(
        StreamsGroupDescribeSubtopology, nullable="0+", default=None
    )


class Assignment(Struct):
    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)


class Member(Struct):
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = structure(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue)
    task_offsets: list[TaskOffset] = array(TaskOffset)
    task_end_offsets: list[TaskOffset] = array(TaskOffset)
    assignment: Assignment = structure(Assignment)
    target_assignment: Assignment = structure(Assignment)
    is_classic: bool = boolean()


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    topology: StreamsGroupDescribeTopology | None = structure(
        StreamsGroupDescribeTopology, nullable="0+", default=None
    )
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-0x80000000)
    topology_description: TopologyDescription | None = structure(
        TopologyDescription, "1+", nullable="1+", default=None
    )
    topology_description_status: int = int8("1+")
    assignor_name: str | None = string("1+", nullable="1+", default=None, ignorable=True)


class StreamsGroupDescribeResponse(Message, api_key=89, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)


class StreamsGroupTopologyDescriptionUpdateRequest(Message, api_key=93, versions="0", flexible="0+"):
    """Sends a description of the group's topology to the coordinator (KIP-1331)."""

    group_id: str = string()
    member_id: str = string()
    topology_epoch: int = int32()
    topology_description: TopologyDescription = structure(TopologyDescription)


class StreamsGroupTopologyDescriptionUpdateResponse(Message, api_key=93, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
