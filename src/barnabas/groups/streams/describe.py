"""StreamsGroupDescribe."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.groups.streams.configured import BROKER_DEFAULT, ConfiguredTopology, InternalTopic
from barnabas.groups.streams.description import TopologyAvailability
from barnabas.groups.streams.group import StreamsGroup
from barnabas.groups.streams.members import StreamsMember
from barnabas.groups.streams.tasks import HeldTasks, StreamsTask, StreamsTasks, by_subtopology
from barnabas.groups.streams.topology import UNDECIDED, StreamsTopology
from barnabas.protocol.messages.records.streams_group import TopicInfo as WrittenTopic
from barnabas.protocol.messages.streams import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeSubtopology,
    StreamsGroupDescribeTopology,
    TaskIds,
    TopicInfo,
)

ASSIGNOR = "sticky"


def described(group: StreamsGroup, *, with_description: bool = False) -> DescribedGroup:
    answer = DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=[_member(group, member) for member in group.members.values()],
        assignor_name=ASSIGNOR,
    )
    if with_description:
        _describe_topology(group, answer)
    return answer


def _describe_topology(group: StreamsGroup, answer: DescribedGroup) -> None:
    """Return the description of the current topology epoch; None if it is of another one."""
    stored, topology = group.description, group.topology
    if stored is None or topology is None or stored.epoch != topology.epoch:
        answer.topology_description_status = TopologyAvailability.NOT_STORED
    else:
        answer.topology_description_status = TopologyAvailability.AVAILABLE
        answer.topology_description = stored.decoded()


def _topology(group: StreamsGroup) -> StreamsGroupDescribeTopology | None:
    """The topology with the computed partition counts, if known; otherwise as the members sent it."""
    if group.configured is not None and group.configured.is_ready:
        return _decided(group.configured)
    return None if group.topology is None else _as_sent(group.topology)


def _decided(configured: ConfiguredTopology) -> StreamsGroupDescribeTopology:
    return StreamsGroupDescribeTopology(
        epoch=configured.topology.epoch,
        subtopologies=[
            StreamsGroupDescribeSubtopology(
                subtopology_id=subtopology_id,
                source_topics=sorted(one.sources),
                repartition_sink_topics=sorted(one.sinks),
                state_changelog_topics=[_internal(topic) for topic in sorted(one.changelogs)],
                repartition_source_topics=[_internal(topic) for topic in sorted(one.repartition_topics)],
            )
            for subtopology_id, one in configured.subtopologies.items()
        ],
    )


def _internal(topic: InternalTopic) -> TopicInfo:
    replicas = UNDECIDED if topic.replication_factor == BROKER_DEFAULT else topic.replication_factor
    configs = [KeyValue(key, value) for key, value in topic.configs.items()]
    return TopicInfo(topic.name, topic.partitions, replicas, configs)


def _as_sent(topology: StreamsTopology) -> StreamsGroupDescribeTopology:
    return StreamsGroupDescribeTopology(
        epoch=topology.epoch,
        subtopologies=[
            StreamsGroupDescribeSubtopology(
                subtopology_id=subtopology_id,
                source_topics=sorted(one.source_topics),
                repartition_sink_topics=sorted(one.repartition_sink_topics),
                state_changelog_topics=_sent_topics(one.state_changelog_topics),
                repartition_source_topics=_sent_topics(one.repartition_source_topics),
            )
            for subtopology_id, one in sorted(topology.subtopologies.items())
        ],
    )


def _sent_topics(topics: Iterable[WrittenTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            [KeyValue(config.key, config.value) for config in topic.topic_configs],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    endpoint = member.endpoint
    return Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags=[KeyValue(key, value) for key, value in member.client_tags.items()],
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(group.target(member.member_id)),
    )


def _assignment(tasks: StreamsTasks | HeldTasks) -> Assignment:
    return Assignment(task_ids(tasks.active), task_ids(tasks.standby), task_ids(tasks.warmup))


def task_ids(tasks: Iterable[StreamsTask]) -> list[TaskIds]:
    return [TaskIds(*ids) for ids in by_subtopology(tasks)]
