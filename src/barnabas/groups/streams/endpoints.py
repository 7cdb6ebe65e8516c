"""Partitions of the instances with a user endpoint, for interactive queries."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.groups.streams.configured import ConfiguredTopology
from barnabas.groups.streams.group import StreamsGroup
from barnabas.groups.streams.members import StreamsMember
from barnabas.groups.streams.sizing import PartitionCounts
from barnabas.groups.streams.tasks import StreamsTask, by_subtopology
from barnabas.protocol.messages.streams import Endpoint, EndpointToPartitions, TopicPartition


def partitions_by_endpoint(
    group: StreamsGroup, updated: StreamsMember, configured: ConfiguredTopology, existing: PartitionCounts
) -> list[EndpointToPartitions]:
    """Partitions of every member; for the member that is being answered, those after this response."""
    others = [member for member in group.members.values() if member.member_id != updated.member_id]
    return [
        EndpointToPartitions(
            user_endpoint=Endpoint(member.endpoint.host, member.endpoint.port),
            active_partitions=_partitions(member.assigned.active, configured, existing),
            standby_partitions=_partitions(member.assigned.standby, configured, existing),
        )
        for member in (*others, updated)
        if member.endpoint is not None
    ]


def _partitions(
    tasks: Iterable[StreamsTask], configured: ConfiguredTopology, existing: PartitionCounts
) -> list[TopicPartition]:
    """A task reads the partition with its number of every topic that has that many."""
    return [
        TopicPartition(topic, [index for index in indexes if index < existing.get(topic, 0)])
        for subtopology_id, indexes in by_subtopology(tasks)
        if subtopology_id in configured.subtopologies
        for topic in configured.subtopologies[subtopology_id].inputs
    ]
