"""The topology of a streams application, as its members send it and the log stores it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.records.streams_group import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)
from barnabas.protocol.messages.streams import StreamsGroupHeartbeatSubtopology, StreamsGroupHeartbeatTopology
from barnabas.protocol.messages.streams import TopicInfo as RequestedTopic

UNDECIDED = 0
"""In a topic of a topology: the broker chooses the number of partitions or replicas."""


@dataclass(frozen=True)
class StreamsTopology:
    """Subtopologies read source topics and repartition topics; their state is kept in changelog topics.

    A repartition topic is the sink of one subtopology and a source of another.
    """

    epoch: int
    subtopologies: dict[str, Subtopology]

    @cached_property
    def required_topics(self) -> frozenset[str]:
        """Topics whose partitions determine the tasks."""
        return frozenset(
            topic
            for subtopology in self.subtopologies.values()
            for topic in (
                *input_topics(subtopology),
                *(changelog.name for changelog in subtopology.state_changelog_topics),
            )
        )

    @cached_property
    def size(self) -> int:
        """Approximate bytes of memory: the size of its encoding."""
        return len(repr(self.subtopologies))

    @cached_property
    def readers(self) -> dict[str, str]:
        """The subtopology that reads a topic, and therefore commits its offsets."""
        return {
            topic: subtopology_id
            for subtopology_id, subtopology in self.subtopologies.items()
            for topic in input_topics(subtopology)
        }


def input_topics(subtopology: Subtopology) -> Iterator[str]:
    yield from subtopology.source_topics
    for topic in subtopology.repartition_source_topics:
        yield topic.name


def topology_of(value: StreamsGroupTopologyValue) -> StreamsTopology:
    return StreamsTopology(value.epoch, {one.subtopology_id: one for one in value.subtopologies})


def to_value(topology: StreamsGroupHeartbeatTopology) -> StreamsGroupTopologyValue:
    """The record of a topology that a member has sent."""
    return StreamsGroupTopologyValue(
        epoch=topology.epoch, subtopologies=[_subtopology(one) for one in topology.subtopologies]
    )


def _subtopology(sent: StreamsGroupHeartbeatSubtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=sent.subtopology_id,
        source_topics=sent.source_topics,
        source_topic_regex=sent.source_topic_regex,
        state_changelog_topics=[_topic(topic) for topic in sent.state_changelog_topics],
        repartition_sink_topics=sent.repartition_sink_topics,
        repartition_source_topics=[_topic(topic) for topic in sent.repartition_source_topics],
        copartition_groups=[
            CopartitionGroup(
                source_topics=group.source_topics,
                source_topic_regex=group.source_topic_regex,
                repartition_source_topics=group.repartition_source_topics,
            )
            for group in sent.copartition_groups
        ],
    )


def _topic(sent: RequestedTopic) -> TopicInfo:
    return TopicInfo(
        name=sent.name,
        partitions=sent.partitions,
        replication_factor=sent.replication_factor,
        topic_configs=[TopicConfig(key=config.key, value=config.value) for config in sent.topic_configs],
    )


def check_topology(topology: StreamsGroupHeartbeatTopology) -> None:
    """Validation independent of the topics; the remaining problems appear when partitions are counted."""
    if topology.epoch < 0:
        raise _invalid(f"The topology epoch is {topology.epoch}, but must not be negative.")
    seen: set[str] = set()
    for subtopology in topology.subtopologies:
        if subtopology.subtopology_id in seen:
            raise _invalid(f"Subtopology {subtopology.subtopology_id} is listed twice.")
        seen.add(subtopology.subtopology_id)
        _check_subtopology(subtopology)


def _check_subtopology(subtopology: StreamsGroupHeartbeatSubtopology) -> None:
    for topic in subtopology.state_changelog_topics:
        if topic.partitions != UNDECIDED:
            raise _invalid(
                f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                f"{topic.partitions}."
            )
    for topic in subtopology.repartition_source_topics:
        if topic.partitions < 0:
            raise _invalid(f"Repartition topic {topic.name} cannot have {topic.partitions} partitions.")
    for group in subtopology.copartition_groups:
        _check_indexes(subtopology, group.source_topics, len(subtopology.source_topics))
        repartitioned = len(subtopology.repartition_source_topics)
        _check_indexes(subtopology, group.repartition_source_topics, repartitioned)


def _check_indexes(subtopology: StreamsGroupHeartbeatSubtopology, indexes: list[int], topics: int) -> None:
    if any(not 0 <= index < topics for index in indexes):
        raise _invalid(
            f"A copartition group of subtopology {subtopology.subtopology_id} names topics that it does "
            f"not have: {indexes} of {topics}."
        )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
