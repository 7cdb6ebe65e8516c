"""Which topics look different to groups after a change of the metadata."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.cluster.deltas import Delta, PartitionChanged, PartitionsAdded, TopicCreated, TopicDeleted
from barnabas.cluster.image import MetadataImage


def deleted_topics(before: MetadataImage, deltas: Iterable[Delta]) -> set[str]:
    gone = (delta.topic_id for delta in deltas if isinstance(delta, TopicDeleted))
    return {before.topic_names_by_id[topic_id] for topic_id in gone if topic_id in before.topic_names_by_id}


def changed_topics(before: MetadataImage, deltas: Iterable[Delta]) -> set[str]:
    """New ones, and those with other partitions or with replicas elsewhere; who leads is of no interest."""
    changed: set[str] = set()
    for delta in deltas:
        if isinstance(delta, TopicCreated):
            changed.add(delta.topic.name)
        elif isinstance(delta, PartitionsAdded) or (
            isinstance(delta, PartitionChanged) and _moved(before, delta)
        ):
            name = before.topic_names_by_id.get(delta.topic_id)
            changed.update(() if name is None else (name,))
    return changed


def _moved(before: MetadataImage, delta: PartitionChanged) -> bool:
    topic = before.topic_by_id(delta.topic_id)
    known = None if topic is None else topic.partition(delta.index)
    return known is not None and known.replicas != delta.state.replicas
