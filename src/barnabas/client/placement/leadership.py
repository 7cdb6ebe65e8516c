"""Leaders spread evenly without copying anything: partitions change the order of their replicas.

Brokers are joined by the partitions that one leads and the other holds. Handing over along a path, one partition for
each step, takes one from its beginning and gives one to its end; those between stay as they are. Where no path leads
to a broker with at least two fewer, no distribution is more even.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from itertools import pairwise

from barnabas.common.types import TopicPartition


class Leadership:
    """Changes `replicas` in place. Partitions in `changed` are handed over first: they are in the plan anyway."""

    def __init__(
        self,
        replicas: dict[TopicPartition, tuple[int, ...]],
        brokers: Iterable[int],
        changed: Collection[TopicPartition] = (),
    ) -> None:
        self._replicas = replicas
        self.leads = dict.fromkeys(brokers, 0)
        self._links: dict[int, dict[int, dict[TopicPartition, None]]] = {broker: {} for broker in self.leads}
        for partition in sorted(replicas, key=lambda partition: (partition not in changed, partition)):
            if replicas[partition] and replicas[partition][0] in self.leads:
                self._add(partition)

    def even_out(self) -> None:
        while (path := self._best_path()) is not None:
            handed_over = [next(iter(self._links[giver][taker])) for giver, taker in pairwise(path)]
            for partition, taker in zip(handed_over, path[1:], strict=True):
                self._hand_over(partition, taker)

    def _best_path(self) -> list[int] | None:
        by_load = sorted(self.leads, key=lambda broker: (-self.leads[broker], broker))
        paths = (self._path(giver) for giver in by_load)
        return next((path for path in paths if path is not None), None)

    def _path(self, start: int) -> list[int] | None:
        """The shortest way to a broker that leads at least two fewer."""
        came_from = {start: start}
        queue = deque([start])
        while queue:
            broker = queue.popleft()
            if self.leads[broker] <= self.leads[start] - 2:
                return _way(came_from, broker)
            links = self._links[broker]
            for neighbour in sorted(links, key=lambda other: (self.leads[other], other)):
                if links[neighbour] and neighbour not in came_from:
                    came_from[neighbour] = broker
                    queue.append(neighbour)
        return None

    def _hand_over(self, partition: TopicPartition, leader: int) -> None:
        replicas = self._replicas[partition]
        self._remove(partition)
        self._replicas[partition] = (leader, *(broker for broker in replicas if broker != leader))
        self._add(partition)

    def _add(self, partition: TopicPartition) -> None:
        leader, *others = self._replicas[partition]
        self.leads[leader] += 1
        for broker in others:
            if broker in self.leads:
                self._links[leader].setdefault(broker, {})[partition] = None

    def _remove(self, partition: TopicPartition) -> None:
        leader, *others = self._replicas[partition]
        self.leads[leader] -= 1
        for broker in others:
            self._links[leader].get(broker, {}).pop(partition, None)


def _way(came_from: dict[int, int], end: int) -> list[int]:
    way = [end]
    while came_from[way[-1]] != way[-1]:
        way.append(came_from[way[-1]])
    return way[::-1]
