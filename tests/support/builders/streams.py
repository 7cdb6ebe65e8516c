"""Compact builders of topologies and tasks."""

from __future__ import annotations

from barnabas.groups.streams.tasks import StreamsTask, StreamsTasks, TaskSet
from barnabas.groups.streams.topology import StreamsTopology, to_value, topology_of
from barnabas.protocol.messages.streams import (
    CopartitionGroup,
    KeyValue,
    StreamsGroupHeartbeatSubtopology,
    StreamsGroupHeartbeatTopology,
    TopicInfo,
)


def internal(name: str, partitions: int = 0, replicas: int = 0, **configs: str) -> TopicInfo:
    listed = [KeyValue(key.replace("_", "."), value) for key, value in configs.items()]
    return TopicInfo(name, partitions, replicas, listed)


def subtopology(
    subtopology_id: str,
    *sources: str,
    reads: list[TopicInfo] | None = None,
    writes: list[str] | None = None,
    changelogs: list[str] | None = None,
    together: list[CopartitionGroup] | None = None,
) -> StreamsGroupHeartbeatSubtopology:
    return StreamsGroupHeartbeatSubtopology(
        subtopology_id=subtopology_id,
        source_topics=list(sources),
        state_changelog_topics=[internal(name, cleanup_policy="compact") for name in changelogs or []],
        repartition_sink_topics=writes or [],
        repartition_source_topics=reads or [],
        copartition_groups=together or [],
    )


def sent_topology(
    *subtopologies: StreamsGroupHeartbeatSubtopology, epoch: int = 0
) -> StreamsGroupHeartbeatTopology:
    return StreamsGroupHeartbeatTopology(epoch, list(subtopologies))


def topology(*subtopologies: StreamsGroupHeartbeatSubtopology, epoch: int = 0) -> StreamsTopology:
    return topology_of(to_value(sent_topology(*subtopologies, epoch=epoch)))


def word_count(epoch: int = 0) -> StreamsGroupHeartbeatTopology:
    """Words are read, repartitioned by word, and counted in a store with a changelog."""
    return sent_topology(
        subtopology("0", "lines", writes=["words"]),
        subtopology("1", reads=[internal("words")], changelogs=["counts"]),
        epoch=epoch,
    )


def tasks(text: str) -> TaskSet:
    """`tasks("0-1 1-2")`"""
    pairs = (one.split("-") for one in text.split())
    return frozenset(StreamsTask(subtopology_id, int(partition)) for subtopology_id, partition in pairs)


def role(active: str = "", standby: str = "", warmup: str = "") -> StreamsTasks:
    return StreamsTasks(tasks(active), tasks(standby), tasks(warmup))
