"""Partitions of a share group that have state at the share coordinator.

State is created before a partition is first assigned and deleted with the group or by an administrator. Both are
recorded beforehand, so that the coordinator after a crash knows which operations may be incomplete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from barnabas.common.types import Uuid


class NamedPartitions(NamedTuple):
    """Partitions of a topic; the name is for readers of the record."""

    name: str
    partitions: frozenset[int]


Partitions = Mapping[Uuid, NamedPartitions]


class StatePartitions(NamedTuple):
    initializing: Partitions = MappingProxyType({})
    initialized: Partitions = MappingProxyType({})
    deleting: Mapping[Uuid, str] = MappingProxyType({})

    def known(self, topic_id: Uuid) -> frozenset[int]:
        """Partitions that have state, or will have it soon."""
        found = frozenset[int]()
        for partitions in (self.initializing, self.initialized):
            if topic_id in partitions:
                found |= partitions[topic_id].partitions
        return found

    def begun(self, wanted: Partitions) -> StatePartitions:
        deleting = {topic: name for topic, name in self.deleting.items() if topic not in wanted}
        return self._replace(initializing=_joined(self.initializing, wanted), deleting=deleting)

    def done(self, created: Partitions) -> StatePartitions:
        return self._replace(
            initializing=_without(self.initializing, created),
            initialized=_joined(self.initialized, created),
        )

    def failed(self, wanted: Partitions) -> StatePartitions:
        return self._replace(initializing=_without(self.initializing, wanted))

    def delete(self, topics: Iterable[Uuid]) -> StatePartitions:
        """Mark their state as being deleted."""
        removed_topics = set(topics)
        named = {**self.deleting}
        for partitions in (self.initializing, self.initialized):
            named.update((topic, each.name) for topic, each in partitions.items() if topic in removed_topics)
        return StatePartitions(
            {topic: each for topic, each in self.initializing.items() if topic not in removed_topics},
            {topic: each for topic, each in self.initialized.items() if topic not in removed_topics},
            named,
        )

    def forgotten(self, topics: Iterable[Uuid]) -> StatePartitions:
        """Remove them: their state is deleted."""
        removed_topics = set(topics)
        deleted = self.delete(removed_topics)
        return deleted._replace(
            deleting={topic: name for topic, name in deleted.deleting.items() if topic not in removed_topics}
        )


def _joined(one: Partitions, other: Partitions) -> Partitions:
    joined = dict(one)
    for topic, added in other.items():
        before = joined[topic].partitions if topic in joined else frozenset[int]()
        joined[topic] = NamedPartitions(added.name, before | added.partitions)
    return joined


def _without(one: Partitions, other: Partitions) -> Partitions:
    left = {
        topic: each._replace(partitions=each.partitions - other[topic].partitions) if topic in other else each
        for topic, each in one.items()
    }
    return {topic: each for topic, each in left.items() if each.partitions}
