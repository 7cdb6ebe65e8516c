"""Reassignment planning: balances replicas and leaders over the brokers of a layout.

Without I/O. `drain` empties a broker, `rebalance` balances replicas and then leaders. A partition's
first replica is its preferred leader, so leaders are balanced by changing the order of replicas, which copies
nothing. Balancing never puts more replicas of a partition on a host or rack; draining does so only without a choice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from barnabas.common.types import TopicPartition

# -- Leader balancing: changes the order of replicas, copies nothing -----------------------------------


class LeaderBalance:
    """Changes `replicas` in place; prefers partitions in `changed`, which are in the plan already."""

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
        """Shortest path to a broker that leads at least two fewer."""
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


Assignment: TypeAlias = Mapping[TopicPartition, tuple[int, ...]]
"""The replicas of each partition, preferred leader first."""


class NoPlanError(Exception):
    """No valid plan exists for these brokers."""


@dataclass(frozen=True, slots=True)
class Site:
    """Broker that can take replicas, with its host and rack."""

    id: int
    host: str = ""
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class ReplicaMove:
    partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def added(self) -> tuple[int, ...]:
        """Brokers that must copy the partition; empty if only the order changes."""
        return tuple(broker for broker in self.after if broker not in self.before)


def drain(assignment: Assignment, sites: Iterable[Site], leaving: int) -> list[ReplicaMove]:
    """Move every replica off a broker, to the broker with the fewest replicas that respects hosts and racks."""
    placement = ReplicaPlacement(assignment, [site for site in sites if site.id != leaving])
    for partition in sorted(assignment):
        if leaving in assignment[partition]:
            _replace_leaving(placement, partition, leaving)
    return placement.moves()


def rebalance(
    assignment: Assignment, sites: Iterable[Site], sizes: Mapping[TopicPartition, int] | None = None
) -> list[ReplicaMove]:
    """Copy the fewest replicas so that brokers differ by at most one, then balance leaders. Prefers small partitions.
    Brokers that are not in `sites` (they are down) keep their replicas."""
    placement = ReplicaPlacement(assignment, sites, sizes)
    while (step := _next_step(placement)) is not None:
        placement.replace(*step)
    changed = {move.partition for move in placement.moves()}
    leadership = LeaderBalance(placement.replicas, placement.sites, changed)
    leadership.even_out()
    return placement.moves()


class ReplicaPlacement:
    """Replicas as planned so far, with the count per broker."""

    def __init__(
        self,
        assignment: Assignment,
        sites: Iterable[Site],
        sizes: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self._before = assignment
        self._sizes = sizes or {}
        self.replicas = dict(assignment)
        self.sites = {site.id: site for site in sites}
        self.holds = dict.fromkeys(self.sites, 0)
        self.leads = dict.fromkeys(self.sites, 0)
        self.held: dict[int, dict[str, set[TopicPartition]]] = {broker: {} for broker in self.sites}
        for partition, replicas in assignment.items():
            self._count(partition, replicas)

    def _count(self, partition: TopicPartition, replicas: tuple[int, ...]) -> None:
        for broker in replicas:
            if broker in self.sites:
                self.holds[broker] += 1
                self.held[broker].setdefault(partition.topic, set()).add(partition)
        if replicas and replicas[0] in self.leads:
            self.leads[replicas[0]] += 1

    def moves(self) -> list[ReplicaMove]:
        return [
            ReplicaMove(partition, before, self.replicas[partition])
            for partition, before in sorted(self._before.items())
            if self.replicas[partition] != before
        ]

    def replace(self, partition: TopicPartition, old: int, new: int) -> None:
        """Replace `old` by `new` at the same index, so also as preferred leader."""
        replicas = self.replicas[partition]
        if replicas[0] == old:
            self.leads[new] += 1
        if old in self.sites:
            self.leads[old] -= replicas[0] == old
            self.holds[old] -= 1
            self.held[old][partition.topic].discard(partition)
        self.holds[new] += 1
        self.held[new].setdefault(partition.topic, set()).add(partition)
        self.replicas[partition] = _with(replicas, old, new)

    def prefer(self, partition: TopicPartition, leader: int) -> None:
        replicas = self.replicas[partition]
        self.leads[replicas[0]] -= 1
        self.leads[leader] += 1
        self.replicas[partition] = (leader, *(broker for broker in replicas if broker != leader))

    def held_of_topic(self, broker: int, topic: str) -> int:
        return len(self.held[broker].get(topic, ()))

    def crowding(self, replicas: Iterable[int]) -> tuple[int, int]:
        """Number of replicas that share a host with another one, and a rack."""
        sites = [self.sites[broker] for broker in replicas if broker in self.sites]
        hosts = [site.host for site in sites if site.host]
        racks = [site.rack for site in sites if site.rack is not None]
        return len(hosts) - len(set(hosts)), len(racks) - len(set(racks))

    def movable(self, giver: int, taker: int) -> TopicPartition | None:
        """A partition that can move from giver to taker, of the topic with the largest difference."""
        for topic in sorted(self.held[giver], key=lambda topic: (self._surplus(topic, taker, giver), topic)):
            for partition in sorted(self.held[giver][topic], key=self._cheapest_first):
                if self._may_move(partition, giver, taker):
                    return partition
        return None

    def _surplus(self, topic: str, taker: int, giver: int) -> int:
        return self.held_of_topic(taker, topic) - self.held_of_topic(giver, topic)

    def _cheapest_first(self, partition: TopicPartition) -> tuple[int, TopicPartition]:
        return self._sizes.get(partition, 0), partition

    def _may_move(self, partition: TopicPartition, giver: int, taker: int) -> bool:
        replicas = self.replicas[partition]
        if taker in replicas:
            return False
        hosts, racks = self.crowding(replicas)
        hosts_then, racks_then = self.crowding(_with(replicas, giver, taker))
        return hosts_then <= hosts and racks_then <= racks


def _with(replicas: tuple[int, ...], old: int, new: int) -> tuple[int, ...]:
    return tuple([new if broker == old else broker for broker in replicas])


def _replace_leaving(placement: ReplicaPlacement, partition: TopicPartition, leaving: int) -> None:
    replicas = placement.replicas[partition]
    free = [broker for broker in placement.sites if broker not in replicas]
    if not free:
        raise NoPlanError(
            f"{partition} has replicas on {', '.join(map(str, replicas))}, and no other broker can host "
            f"the replica of {leaving}: start another broker, or reduce the replicas of the topic with "
            "`barnabas cluster move`"
        )

    def cost(broker: int) -> tuple[object, ...]:
        crowding = placement.crowding(_with(replicas, leaving, broker))
        return (
            crowding,
            placement.holds[broker],
            placement.held_of_topic(broker, partition.topic),
            broker,
        )

    placement.replace(partition, leaving, min(free, key=cost))
    if replicas[0] == leaving:
        _choose_leader(placement, partition)


def _choose_leader(placement: ReplicaPlacement, partition: TopicPartition) -> None:
    """Prefer the broker that leads the fewest; the new replica already counts as leader."""
    replicas = placement.replicas[partition]
    candidates = [broker for broker in replicas if broker in placement.sites]
    placement.prefer(
        partition, min(candidates, key=lambda broker: placement.leads[broker] - (broker == replicas[0]))
    )


def _next_step(placement: ReplicaPlacement) -> tuple[TopicPartition, int, int] | None:
    for giver, taker in _unequal_pairs(placement.holds):
        partition = placement.movable(giver, taker)
        if partition is not None:
            return partition, giver, taker
    return None


def _unequal_pairs(holds: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Pairs (giver, taker) between which a move reduces the difference, largest difference first. Always moving from
    the fullest to the emptiest broker takes the fewest moves."""
    by_load = sorted(holds, key=lambda broker: (holds[broker], broker))
    for giver in reversed(by_load):
        for taker in by_load:
            if holds[giver] - holds[taker] < 2:
                break
            yield giver, taker
