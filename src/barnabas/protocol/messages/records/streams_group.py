"""Records of `__consumer_offsets` with the state of streams groups."""

from __future__ import annotations

from barnabas.protocol.messages.streams import TopologyDescription
from barnabas.protocol.schema import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
    structure,
    uint16,
)

# -- Description of a topology (KIP-1331), specific to Barnabas ----------------------------------------
# Kafka delegates the storage of descriptions to a plugin. Coordinators of Kafka and Barnabas skip unknown record types.

TYPE = 10_093
"""Record type, well above Kafka's, which count from 0; 93 is the API key of the corresponding request."""


class StreamsGroupTopologyDescriptionKey(Message, api_key=TYPE, versions="0"):
    group_id: str = string()


class StreamsGroupTopologyDescriptionValue(Message, api_key=TYPE, versions="0", flexible="0+"):
    topology_epoch: int = int32()
    topology_description: TopologyDescription = structure(TopologyDescription)


class StreamsGroupMetadataKey(Message, api_key=17, versions="0"):
    group_id: str = string()


class LastAssignmentConfig(Struct):
    key: str = string()
    value: str = string()


class StreamsGroupMetadataValue(Message, api_key=17, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64()
    validated_topology_epoch: int = int32(tag=0, default=-1)
    last_assignment_configs: list[LastAssignmentConfig] | None = array(
        LastAssignmentConfig, nullable="0+", tag=1
    )


class StreamsGroupMemberMetadataKey(Message, api_key=19, versions="0"):
    group_id: str = string()
    member_id: str = string()


class Endpoint(Struct):
    host: str = string()
    port: int = uint16()


class KeyValue(Struct):
    key: str = string()
    value: str = string()


class StreamsGroupMemberMetadataValue(Message, api_key=19, versions="0", flexible="0+"):
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = structure(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue)


class StreamsGroupTargetAssignmentMetadataKey(Message, api_key=20, versions="0"):
    group_id: str = string()


class StreamsGroupTargetAssignmentMetadataValue(Message, api_key=20, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)


class StreamsGroupTargetAssignmentMemberKey(Message, api_key=21, versions="0"):
    group_id: str = string()
    member_id: str = string()


class StreamsGroupTargetAssignmentMemberTaskIds(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array(int32)


class StreamsGroupTargetAssignmentMemberValue(Message, api_key=21, versions="0", flexible="0+"):
    active_tasks: list[StreamsGroupTargetAssignmentMemberTaskIds] = array(
        StreamsGroupTargetAssignmentMemberTaskIds
    )
    standby_tasks: list[StreamsGroupTargetAssignmentMemberTaskIds] = array(
        StreamsGroupTargetAssignmentMemberTaskIds
    )
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberTaskIds] = array(
        StreamsGroupTargetAssignmentMemberTaskIds
    )


class StreamsGroupCurrentMemberAssignmentKey(Message, api_key=22, versions="0"):
    group_id: str = string()
    member_id: str = string()


class StreamsGroupCurrentMemberAssignmentTaskIds(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", tag=0)


class StreamsGroupCurrentMemberAssignmentValue(Message, api_key=22, versions="0", flexible="0+"):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: list[StreamsGroupCurrentMemberAssignmentTaskIds] = array(
        StreamsGroupCurrentMemberAssignmentTaskIds
    )
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentTaskIds] = array(
        StreamsGroupCurrentMemberAssignmentTaskIds
    )
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentTaskIds] = array(
        StreamsGroupCurrentMemberAssignmentTaskIds
    )
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentTaskIds] = array(
        StreamsGroupCurrentMemberAssignmentTaskIds
    )
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentTaskIds] = array(
        StreamsGroupCurrentMemberAssignmentTaskIds
    )
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentTaskIds] = array(
        StreamsGroupCurrentMemberAssignmentTaskIds
    )


class StreamsGroupTopologyKey(Message, api_key=23, versions="0"):
    group_id: str = string()


class TopicConfig(Struct):
    key: str = string()
    value: str = string()


class TopicInfo(Struct):
    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[TopicConfig] = array(TopicConfig)


class CopartitionGroup(Struct):
    source_topics: list[int] = array(int16)
    source_topic_regex: list[int] = array(int16)
    repartition_source_topics: list[int] = array(int16)


class Subtopology(Struct):
    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    source_topic_regex: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array(string)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


class StreamsGroupTopologyValue(Message, api_key=23, versions="0", flexible="0+"):
    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)
