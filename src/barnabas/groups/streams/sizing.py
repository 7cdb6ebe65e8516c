"""Partition counts of the internal topics of a topology, from those of its source topics.

Three rules, in this order. A repartition topic without a count gets as many partitions as the largest input of the
subtopology that writes it, which may take several rounds, since that input may be a repartition topic too.
Topics of a copartition group must agree: external topics and those with a count decide, the others
follow. A changelog has a partition for each task of its subtopology.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.groups.streams.topology import UNDECIDED, StreamsTopology, input_topics
from barnabas.protocol.messages.records.streams_group import CopartitionGroup, Subtopology

PartitionCounts = Mapping[str, int]


class StreamsStatus(IntEnum):
    """Status codes of StreamsGroupHeartbeatResponse."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6
    """Of Kafka 4.4; clients of older versions stop at a code that they do not know."""


class TopologyProblem(NamedTuple):
    """A problem that is reported to members; they wait until it is resolved."""

    status: StreamsStatus
    detail: str


class TopicsUnfitError(Exception):
    """The topics of the cluster do not fit the topology."""

    def __init__(self, status: StreamsStatus, detail: str) -> None:
        super().__init__(detail)
        self.problem = TopologyProblem(status, detail)


def decide_partitions(topology: StreamsTopology, existing: PartitionCounts) -> dict[str, int]:
    """Partition counts of all internal topics. Existing topics keep theirs."""
    decided = _size_repartition_topics(topology, existing)
    _agree_in_copartition_groups(topology, existing, decided)
    for subtopology in topology.subtopologies.values():
        tasks = number_of_tasks(subtopology, existing, decided)
        for changelog in subtopology.state_changelog_topics:
            decided[changelog.name] = tasks
    return decided


def number_of_tasks(subtopology: Subtopology, existing: PartitionCounts, decided: PartitionCounts) -> int:
    """Number of tasks: the partitions of the largest topic that is read."""
    counts = [_count(topic, existing, decided) for topic in input_topics(subtopology)]
    if not counts:
        raise _invalid(f"No source topics found for subtopology {subtopology.subtopology_id}")
    return max(counts)


def _count(topic: str, existing: PartitionCounts, decided: PartitionCounts) -> int:
    return existing[topic] if topic in existing else decided[topic]


# -- repartition topics -----------------------------------------------------------------------------


def _size_repartition_topics(topology: StreamsTopology, existing: PartitionCounts) -> dict[str, int]:
    sizes = {name: fixed for name, fixed in _repartition_topics(topology) if fixed != UNDECIDED}
    unsized = _sinks_without(sizes, topology)
    while unsized:
        for sink, writer in unsized:
            size = _largest_known_input(writer, existing, sizes)
            if size is not None:
                sizes[sink] = size
        left = _sinks_without(sizes, topology)
        if len(left) == len(unsized):
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics. "
                "There may be loops in the topology that cannot be resolved."
            )
        unsized = left
    if any(name not in sizes for name, _ in _repartition_topics(topology)):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics, because "
            "a repartition source topic is never used as a sink topic."
        )
    return sizes


def _repartition_topics(topology: StreamsTopology) -> Iterator[tuple[str, int]]:
    for subtopology in topology.subtopologies.values():
        for topic in subtopology.repartition_source_topics:
            yield topic.name, topic.partitions


def _sinks_without(sizes: PartitionCounts, topology: StreamsTopology) -> list[tuple[str, Subtopology]]:
    return [
        (sink, subtopology)
        for subtopology in topology.subtopologies.values()
        for sink in subtopology.repartition_sink_topics
        if sink not in sizes
    ]


def _largest_known_input(
    subtopology: Subtopology, existing: PartitionCounts, sizes: PartitionCounts
) -> int | None:
    known = [sizes[topic.name] for topic in subtopology.repartition_source_topics if topic.name in sizes]
    known += [existing[topic] for topic in subtopology.source_topics if topic in existing]
    return max(known, default=None)


# -- copartition groups -----------------------------------------------------------------------------


def _agree_in_copartition_groups(
    topology: StreamsTopology, existing: PartitionCounts, decided: dict[str, int]
) -> None:
    sizes = dict(_repartition_topics(topology))
    for subtopology in topology.subtopologies.values():
        for group in subtopology.copartition_groups:
            together = copartitioned_topics(subtopology, group)
            counts = {topic: _count(topic, existing, decided) for topic in sorted(together)}
            decided.update(_agree(counts, sizes))


def copartitioned_topics(subtopology: Subtopology, group: CopartitionGroup) -> set[str]:
    """Topic names of a copartition group, which has indexes into the lists of the subtopology."""
    external = {subtopology.source_topics[index] for index in group.source_topics}
    repartition = subtopology.repartition_source_topics
    return external | {repartition[index].name for index in group.repartition_source_topics}


def _agree(counts: dict[str, int], repartition_sizes: PartitionCounts) -> dict[str, int]:
    """Partition counts of the repartition topics in a copartition group."""
    external = {topic: count for topic, count in counts.items() if topic not in repartition_sizes}
    fixed = {topic: count for topic, count in counts.items() if repartition_sizes.get(topic, UNDECIDED)}
    if external:
        agreed = _same(external, external)
    elif fixed:
        agreed = _same(fixed, counts)
    else:
        agreed = max(counts.values(), default=0)
    for topic, count in fixed.items():
        if count != agreed:
            raise TopicsUnfitError(
                StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{count}] of repartition topic [{topic}] doesn't match number of "
                f"partitions [{agreed}] of the source topic.",
            )
    return {topic: agreed for topic in counts if topic in repartition_sizes}


def _same(deciding: dict[str, int], shown: dict[str, int]) -> int:
    """The common partition count of the topics that decide."""
    numbers = set(deciding.values())
    if len(numbers) > 1:
        listed = ", ".join(f"{topic}={count}" for topic, count in shown.items())
        raise TopicsUnfitError(
            StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{listed}}}]",
        )
    return numbers.pop()


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
