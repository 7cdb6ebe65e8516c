"""Topics of the cluster as groups see them: a narrow, read-only view of the metadata image."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, KeysView
from hashlib import blake2b
from typing import NamedTuple

from barnabas.cluster.image import EMPTY_IMAGE, MetadataImage, TopicState
from barnabas.common.types import Uuid
from barnabas.groups.memory_budget import NAME_BYTES, text_bytes

# -- What the members of one group subscribe to, kept up to date member by member ----------------------

Names = frozenset[str]
NO_NAMES: Names = frozenset()


class Subscriptions:
    def __init__(self) -> None:
        self._subscribers: Counter[str] = Counter()
        """Number of members per topic."""
        self._members: Counter[Names] = Counter()
        """Number of members per set of names."""
        self._shared: dict[Names, Names] = {}
        self.size = 0
        """Memory of the sets."""
        self.names = 0
        """Total size of all sets: the cost of iterating over them."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Subscriptions) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def topics(self) -> KeysView[str]:
        return self._subscribers.keys()

    @property
    def sets(self) -> KeysView[Names]:
        """Distinct sets."""
        return self._members.keys()

    def share(self, names: Iterable[str]) -> Names:
        """Return the shared set with these names, if another member has one."""
        made = frozenset(names)
        return self._shared.get(made, made)

    def replace(self, before: Names, after: Names) -> None:
        if before is after:
            return
        self._add(after)
        self._remove(before)
        self._subscribers.update(after - before)
        for name in before - after:
            self._subscribers[name] -= 1
            if not self._subscribers[name]:
                del self._subscribers[name]

    def _add(self, names: Names) -> None:
        if not names:
            return
        self._members[names] += 1
        if self._members[names] == 1:
            self._shared[names] = names
            self.size += text_bytes(names) + NAME_BYTES * len(names)
            self.names += len(names)

    def _remove(self, names: Names) -> None:
        if not names:
            return
        self._members[names] -= 1
        if not self._members[names]:
            del self._members[names], self._shared[names]
            self.size -= text_bytes(names) + NAME_BYTES * len(names)
            self.names -= len(names)

    def topics_without(self, removed_topics: Iterable[Names], joined: Names = NO_NAMES) -> set[str]:
        """All topics after members with these names have left and one has joined."""
        leaving: Counter[str] = Counter()
        for names in removed_topics:
            leaving.update(names)
        topics = set(self._subscribers)
        topics.difference_update(name for name, count in leaving.items() if self._subscribers[name] <= count)
        return topics | joined


NOTHING_SUBSCRIBED = 0
"""Hash of no topics, as in Kafka."""

MAX_HASHES = 1 << 63
"""Range of a record field without its sign."""


class SubscribedTopic(NamedTuple):
    topic_id: Uuid
    name: str
    partitions: int


class ImageTopics:
    """View of the current image. `topics_changed` notifies a shard of changes."""

    def __init__(self, image: Callable[[], MetadataImage] = lambda: EMPTY_IMAGE) -> None:
        self._image = image
        self._names_version: int | None = None
        self._racks: tuple[object, dict[tuple[int, ...], tuple[str, ...]]] = (None, {})
        self._hashes: dict[str, tuple[TopicState, int]] = {}

    @property
    def version(self) -> int:
        """Rises with every change of the metadata."""
        return self._image().offset

    @property
    def names_version(self) -> int:
        """Version since which the topics are unchanged, as far as known."""
        if self._names_version is None:
            self._names_version = self.version
        return self._names_version

    def names(self) -> list[str]:
        return list(self._image().topics)

    def find(self, name: str) -> SubscribedTopic | None:
        state = self._image().topics.get(name)
        return None if state is None else SubscribedTopic(state.topic_id, name, len(state.partitions))

    def name_of(self, topic_id: Uuid) -> str | None:
        return self._image().topic_names_by_id.get(topic_id)

    def ids(self, names: Iterable[str]) -> frozenset[Uuid]:
        """Ids of the topics that exist."""
        topics = self._image().topics
        return frozenset(topics[name].topic_id for name in names if name in topics)

    def partition_counts(self, topic_ids: Iterable[Uuid]) -> dict[Uuid, int]:
        image = self._image()
        found = ((topic_id, image.topic_by_id(topic_id)) for topic_id in topic_ids)
        return {topic_id: len(state.partitions) for topic_id, state in found if state is not None}

    def racks(self, name: str) -> list[tuple[str, ...]]:
        """Sorted racks of the replicas of each partition; empty if the topic does not exist."""
        image = self._image()
        state = image.topics.get(name)
        if state is None:
            return []
        known = self._racks_in(image)
        for one in state.partitions:
            if one.replicas not in known:
                known[one.replicas] = _racks(image, one.replicas)
        return [known[one.replicas] for one in state.partitions]

    def _racks_in(self, image: MetadataImage) -> dict[tuple[int, ...], tuple[str, ...]]:
        """Cached while the brokers stay the same: thousands of partitions share few replica sets."""
        if self._racks[0] is not image.brokers:
            self._racks = (image.brokers, {})
        return self._racks[1]

    def hash_of(self, names: Iterable[str]) -> int:
        """Equal while these topics have the same ids, partitions and racks; 63 bits, as in the record.

        Kafka uses another function (XXH3), so a group that moves between the two gets one more epoch.
        """
        topics, known = self._image().topics, self._hashes
        total = NOTHING_SUBSCRIBED
        for name in names:  # a sum needs no sorting: a group may have 50,000 topics
            if (state := topics.get(name)) is not None:
                found = known.get(name)
                total += found[1] if found is not None and found[0] is state else self._hash(name, state)
        return total % MAX_HASHES

    def _hash(self, name: str, state: TopicState) -> int:
        facts = repr((state.topic_id, name, self.racks(name))).encode()
        value = int.from_bytes(blake2b(facts, digest_size=8).digest(), "big")
        self._hashes[name] = (state, value)
        return value

    def changed(self, deleted: Iterable[str]) -> None:
        """Topics were created, extended or deleted, these among them."""
        self._names_version = self.version
        for name in deleted:
            self._hashes.pop(name, None)


def _racks(image: MetadataImage, replicas: Iterable[int]) -> tuple[str, ...]:
    brokers = (image.brokers.get(replica) for replica in replicas)
    return tuple(sorted(broker.rack for broker in brokers if broker is not None and broker.rack is not None))
