"""Validation of StreamsGroupHeartbeat requests, with Kafka's order and messages."""

from __future__ import annotations

from barnabas.cluster import topic_name_error
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.groups.modern import JOINING, LEAVING_FOR_A_WHILE
from barnabas.groups.streams.members import UNKNOWN_TIMEOUT_MS
from barnabas.groups.streams.topology import check_topology
from barnabas.groups.streams.warmups import FIRST_WITH_OFFSETS
from barnabas.protocol.internal_topics import INTERNAL_TOPICS
from barnabas.protocol.messages.streams import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatTopology


def check_heartbeat(request: StreamsGroupHeartbeatRequest, version: int) -> None:
    if request.topology is not None:
        _check_topic_names(request.topology)
    _check_features(request, version)
    _check_names(request)
    if request.member_epoch == JOINING:
        _check_join(request)
    else:
        _check_later(request)
    lists = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(tasks is None for tasks in lists) and any(tasks is not None for tasks in lists):
        raise _invalid("If one task-type is non-null, all must be non-null.")


def _check_topic_names(topology: StreamsGroupHeartbeatTopology) -> None:
    topics = list(
        dict.fromkeys(
            topic
            for one in topology.subtopologies
            for topic in (
                *one.source_topics,
                *one.repartition_sink_topics,
                *(topic.name for topic in one.repartition_source_topics),
                *(topic.name for topic in one.state_changelog_topics),
            )
        )
    )
    if prohibited := [topic for topic in topics if topic in INTERNAL_TOPICS]:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited.",
        )
    if illegal := [topic for topic in topics if topic_name_error(topic)]:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Topic names {','.join(illegal)} are not valid topic names.",
        )


def _check_features(request: StreamsGroupHeartbeatRequest, version: int) -> None:
    """Fields of the protocol that the coordinator of Kafka 4.3 does not support."""
    if request.instance_id is not None:
        raise _invalid("Static membership is not yet supported.")
    if version < FIRST_WITH_OFFSETS:
        _check_no_warmups(request)
    if request.topology is not None and any(one.source_topic_regex for one in request.topology.subtopologies):
        raise _invalid("Regular expressions for source topics are not supported yet.")


def _check_no_warmups(request: StreamsGroupHeartbeatRequest) -> None:
    """Kafka 4.3, which has version 0 only, rejects them; clients of 4.4 send offsets with every join."""
    if request.task_offsets is not None:
        raise _invalid("TaskOffsets are not supported yet.")
    if request.task_end_offsets is not None:
        raise _invalid("TaskEndOffsets are not supported yet.")
    if request.warmup_tasks:
        raise _invalid("WarmupTasks are not supported yet.")


def _check_names(request: StreamsGroupHeartbeatRequest) -> None:
    if not request.member_id.strip():
        raise _invalid("MemberId can't be empty.")
    if not request.group_id.strip():
        raise _invalid("GroupId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        raise _invalid("RackId can't be empty.")


def _check_join(request: StreamsGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == UNKNOWN_TIMEOUT_MS:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    for name, tasks in (
        ("ActiveTasks", request.active_tasks),
        ("StandbyTasks", request.standby_tasks),
        ("WarmupTasks", request.warmup_tasks),
    ):
        if tasks is None or tasks:
            raise _invalid(f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        raise _invalid("Topology must be non-null when (re-)joining.")
    check_topology(request.topology)


def _check_later(request: StreamsGroupHeartbeatRequest) -> None:
    if request.member_epoch == LEAVING_FOR_A_WHILE:
        raise _invalid("InstanceId can't be null.")
    if request.member_epoch < LEAVING_FOR_A_WHILE:
        raise _invalid(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")
    if request.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
