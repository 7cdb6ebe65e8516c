"""A topology matched with the topics of the cluster: tasks, internal topics, and problems."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.groups.streams.sizing import (
    PartitionCounts,
    StreamsStatus,
    TopicsUnfitError,
    TopologyProblem,
    decide_partitions,
    number_of_tasks,
)
from barnabas.groups.streams.topology import UNDECIDED, StreamsTopology, input_topics
from barnabas.protocol.messages.records.streams_group import Subtopology, TopicInfo

MAX_TOPICS_NAMED = 3  # in a status; the rest is counted, as Kafka does
BROKER_DEFAULT = -1  # in a request to create a topic: as many replicas as the broker's settings say


class InternalTopic(NamedTuple):
    """A repartition or changelog topic with the parameters of its creation."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    tasks: int
    inputs: tuple[str, ...]
    sinks: tuple[str, ...]
    sources: tuple[str, ...]
    repartition_topics: tuple[InternalTopic, ...]
    changelogs: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelogs)

    @property
    def internal_topics(self) -> Iterator[InternalTopic]:
        yield from self.repartition_topics
        yield from self.changelogs


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """Ready without a problem; only then are there tasks to assign.

    `metadata_hash` identifies the state of the topics that this was computed from.
    """

    topology: StreamsTopology
    metadata_hash: int
    subtopologies: Mapping[str, ConfiguredSubtopology] = field(default_factory=dict)
    missing: tuple[InternalTopic, ...] = ()
    problem: TopologyProblem | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


def configure(topology: StreamsTopology, existing: PartitionCounts, metadata_hash: int) -> ConfiguredTopology:
    """Raises KafkaError(STREAMS_INVALID_TOPOLOGY) if the topology is invalid for any topics."""
    try:
        subtopologies, missing = _configure(topology, existing)
    except TopicsUnfitError as unfit:
        return ConfiguredTopology(topology, metadata_hash, problem=unfit.problem)
    problem = None
    if missing:
        detail = f"Internal topics are missing: {summary([topic.name for topic in missing])}"
        problem = TopologyProblem(StreamsStatus.MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(topology, metadata_hash, subtopologies, missing, problem)


def _configure(
    topology: StreamsTopology, existing: PartitionCounts
) -> tuple[dict[str, ConfiguredSubtopology], tuple[InternalTopic, ...]]:
    _check_sources_exist(topology, existing)
    decided = decide_partitions(topology, existing)
    subtopologies = {
        subtopology_id: _subtopology(topology.subtopologies[subtopology_id], existing, decided)
        for subtopology_id in sorted(topology.subtopologies)
    }
    return subtopologies, _missing(subtopologies, existing)


def _check_sources_exist(topology: StreamsTopology, existing: PartitionCounts) -> None:
    sources = {topic for one in topology.subtopologies.values() for topic in one.source_topics}
    missing = sorted(sources - existing.keys())
    if missing:
        raise TopicsUnfitError(
            StreamsStatus.MISSING_SOURCE_TOPICS, f"Source topics {summary(missing)} are missing."
        )


def _subtopology(
    subtopology: Subtopology, existing: PartitionCounts, decided: PartitionCounts
) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        tasks=number_of_tasks(subtopology, existing, decided),
        inputs=tuple(dict.fromkeys(input_topics(subtopology))),
        sinks=tuple(subtopology.repartition_sink_topics),
        sources=tuple(subtopology.source_topics),
        repartition_topics=tuple(
            _internal(topic, decided) for topic in subtopology.repartition_source_topics
        ),
        changelogs=tuple(_internal(topic, decided) for topic in subtopology.state_changelog_topics),
    )


def _internal(topic: TopicInfo, decided: PartitionCounts) -> InternalTopic:
    partitions = decided[topic.name] if topic.partitions == UNDECIDED else topic.partitions
    replicas = BROKER_DEFAULT if topic.replication_factor == UNDECIDED else topic.replication_factor
    configs = {config.key: config.value for config in topic.topic_configs}
    return InternalTopic(topic.name, partitions, replicas, configs)


def _missing(
    subtopologies: Mapping[str, ConfiguredSubtopology], existing: PartitionCounts
) -> tuple[InternalTopic, ...]:
    wanted = {topic.name: topic for one in subtopologies.values() for topic in one.internal_topics}
    for name, topic in sorted(wanted.items()):
        found = existing.get(name, topic.partitions)
        if found != topic.partitions:
            raise TopicsUnfitError(
                StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {topic.partitions}, "
                f"found {found}",
            )
    return tuple(topic for name, topic in sorted(wanted.items()) if name not in existing)


def summary(names: Collection[str]) -> str:
    shown = ", ".join(sorted(names)[:MAX_TOPICS_NAMED])
    more = len(names) - MAX_TOPICS_NAMED
    return f"{shown} and {more} additional topics" if more > 0 else shown
