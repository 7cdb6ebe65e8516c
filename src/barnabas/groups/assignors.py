"""Server-side assignors: pure functions from subscriptions and the current assignment to the next assignment.

uniform   Members get equally many partitions and keep those they own where balance allows it. If all members
          subscribe to the same topics, the quota of each follows from the counts alone and few partitions move:
          members that own most get the larger quotas. Otherwise partitions move from the most to the least loaded
          subscriber of each topic until no move helps. Racks are ignored, as in Kafka 4.3.
range     Each subscriber gets a contiguous range of every topic's partitions. Partition n of topics with equally many
          partitions and the same subscribers goes to one member, so that it can join them. Members are ordered by
          instance id, then by member id.

Each is a generator of steps (`barnabas.common.cooperative`), because large groups would block the event loop.
"""

from __future__ import annotations

import heapq
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import NamedTuple

from barnabas.common.cooperative import PIECE, Steps, finish, pieces, sort
from barnabas.common.types import Uuid
from barnabas.groups.modern import Assignment, partitions_of

# -- Subscriptions -------------------------------------------------------------------------------------


class MemberSpec(NamedTuple):
    """`topics` are the ids of subscribed topics that exist; `assigned` is the present target."""

    topics: Set[Uuid]
    assigned: Assignment
    instance_id: str | None = None


def have_equal_subscriptions(members: Mapping[str, MemberSpec]) -> bool:
    first = next(iter(members.values()), None)
    return first is None or all(
        member.topics is first.topics or member.topics == first.topics for member in members.values()
    )


def subscribers_steps(members: Mapping[str, MemberSpec]) -> Steps[dict[Uuid, list[str]]]:
    """Subscribers of each topic, in member order. Topics with equal subscribers share one list: a thousand members
    with the same subscription of thousands of topics cost as much as one of them."""
    kinds: dict[int, list[str]] = {}
    for member_id, member in members.items():
        kinds.setdefault(id(member.topics), []).append(member_id)
    alike = list(kinds.values())
    containing: dict[Uuid, array[int]] = {}  # numbers, which take little memory and no time to free
    for number, same in enumerate(alike):
        for piece in pieces(members[same[0]].topics):
            for topic in piece:
                containing.setdefault(topic, array("I")).append(number)
            yield
    ordered = list(members)
    position = {member_id: number for number, member_id in enumerate(ordered)}
    lists: dict[bytes, list[str]] = {}
    found = {}
    for topic in list(containing):
        among = containing.pop(topic)
        key = among.tobytes()
        if key not in lists:
            positions = (position[member_id] for number in among for member_id in alike[number])
            lists[key] = [ordered[number] for number in (yield from sort(positions))]
        found[topic] = lists[key]
        yield
    return found


# -- `uniform` -----------------------------------------------------------------------------------------

MAX_ROUNDS = 16
"""As in Kafka: a move in one topic may enable another in an earlier topic, but the number of rounds is bounded."""


class Balance:
    def __init__(self, members: Mapping[str, MemberSpec], counts: Mapping[Uuid, int]) -> None:
        self._members = members
        self._subscribers: dict[Uuid, list[str]] = {}
        self._sharing: Counter[int] = Counter()
        """Number of topics that share a list of subscribers."""
        self._idlest: dict[int, list[tuple[int, str]]] = {}
        """Heaps of subscriber lists that several topics share."""
        self._smallest: dict[int, int] = {}
        """The smallest load among these subscribers; invalidated by every change."""
        self._counts = counts
        self._load = dict.fromkeys(members, 0)
        self._owners: dict[Uuid, dict[int, str]] = {}

    def _collect_members(self) -> Steps[None]:
        """Collect subscribers and current owners."""
        self._subscribers = yield from subscribers_steps(self._members)
        self._sharing.update(map(id, self._subscribers.values()))
        self._owners = {topic: {} for topic in self._subscribers}
        for member_id, member in self._members.items():
            yield from self._keep(member_id, member)

    def _keep(self, member_id: str, member: MemberSpec) -> Steps[None]:
        for topic, indexes in member.assigned.items():
            if topic in member.topics:
                for index in sorted(indexes):
                    if index < self._counts[topic] and index not in self._owners[topic]:
                        self._give(topic, index, member_id)
                yield

    def _give(self, topic: Uuid, index: int, member_id: str) -> None:
        before = self._owners[topic].get(index)
        if before is not None:
            self._load[before] -= 1
        self._owners[topic][index] = member_id
        self._load[member_id] += 1
        self._smallest.clear()

    def run(self) -> Steps[dict[str, Assignment]]:
        yield from self._collect_members()
        topics = [topic for *_, topic in (yield from sort(map(self._urgency, self._subscribers)))]
        for topic in topics:
            yield from self._hand_out(topic)
        self._idlest.clear()
        shared = [topic for topic in topics if len(self._subscribers[topic]) > 1]
        for _ in range(MAX_ROUNDS):
            moved = False
            for topic in shared:
                moved |= yield from self._even_out(topic)
            if not moved:
                break
        return (yield from self._assignments())

    def _urgency(self, topic: Uuid) -> tuple[float, int, Uuid]:
        """Topics with many partitions for few subscribers come first: they leave least choice."""
        subscribers = len(self._subscribers[topic])
        return (-self._counts[topic] / subscribers, subscribers, topic)

    def _hand_out(self, topic: Uuid) -> Steps[None]:
        """Assign unowned partitions to the least loaded subscriber."""
        owners = self._owners[topic]
        if len(owners) == self._counts[topic]:
            return
        free = [index for index in range(self._counts[topic]) if index not in owners]
        idlest = self._idlest_of(self._subscribers[topic])
        for piece in pieces(free):
            for index in piece:
                self._give(topic, index, self._top(idlest, 1))
            yield

    def _idlest_of(self, subscribers: list[str]) -> list[tuple[int, str]]:
        """Heap of subscribers by load. Loads only grow while partitions are assigned, so `_top` keeps it valid."""
        heap = self._idlest.get(id(subscribers))
        if heap is None:
            heap = [(self._load[member_id], member_id) for member_id in subscribers]
            heapq.heapify(heap)
            # Not for a list that one topic uses: thousands of them would take much memory.
            if self._sharing[id(subscribers)] > 1:
                self._idlest[id(subscribers)] = heap
        return heap

    def _even_out(self, topic: Uuid) -> Steps[bool]:
        """Move partitions of this topic from the most to the least loaded owner while they differ by two or more."""
        yield
        if self._is_even(topic):
            return False
        held: dict[str, list[int]] = {}
        for index, owner in sorted(self._owners[topic].items()):
            held.setdefault(owner, []).append(index)
        busiest = [(-self._load[member_id], member_id) for member_id in held]
        idlest = [(self._load[member_id], member_id) for member_id in self._subscribers[topic]]
        heapq.heapify(busiest)
        heapq.heapify(idlest)
        moved = False
        while busiest:
            giver, taker = self._top(busiest, -1), self._top(idlest, 1)
            if self._load[giver] - self._load[taker] <= 1:
                break
            self._give(topic, held[giver].pop(), taker)
            moved = True
            if len(held[giver]) % PIECE == 0:
                yield
            if not held[giver]:
                heapq.heappop(busiest)
        return moved

    def _is_even(self, topic: Uuid) -> bool:
        subscribers = self._subscribers[topic]
        smallest = self._smallest.get(id(subscribers))
        if smallest is None:
            smallest = min(map(self._load.__getitem__, subscribers))
            self._smallest[id(subscribers)] = smallest
        largest = max(map(self._load.__getitem__, self._owners[topic].values()), default=0)
        return largest - smallest <= 1

    def _top(self, heap: list[tuple[int, str]], sign: int) -> str:
        """Return the top member; entries with an outdated load are pushed back with the current one."""
        while heap[0][0] != sign * self._load[heap[0][1]]:
            member_id = heap[0][1]
            heapq.heapreplace(heap, (sign * self._load[member_id], member_id))
        return heap[0][1]

    def _assignments(self) -> Steps[dict[str, Assignment]]:
        shares: dict[str, dict[Uuid, set[int]]] = {member_id: {} for member_id in self._load}
        for topic, owners in self._owners.items():
            for index, member_id in owners.items():
                shares[member_id].setdefault(topic, set()).add(index)
            yield
        targets: dict[str, Assignment] = {}
        for member_id, share in shares.items():
            targets[member_id] = {topic: partitions_of(indexes) for topic, indexes in share.items()}
            yield
        while self._subscribers:  # freeing millions of entries at once takes long, too
            self._subscribers.popitem()
            yield
        return targets


TopicIdPartition = tuple[Uuid, int]


def assign_uniformly(members: Mapping[str, MemberSpec], counts: Mapping[Uuid, int]) -> dict[str, Assignment]:
    return finish(uniform_steps(members, counts))


def uniform_steps(
    members: Mapping[str, MemberSpec], counts: Mapping[Uuid, int]
) -> Steps[dict[str, Assignment]]:
    if not members:
        return {}
    if not have_equal_subscriptions(members):
        return (yield from Balance(members, counts).run())
    return (yield from _share_evenly(members, counts))


def _share_evenly(
    members: Mapping[str, MemberSpec], counts: Mapping[Uuid, int]
) -> Steps[dict[str, Assignment]]:
    topics = next(iter(members.values())).topics
    ordered_topics = yield from sort(topics)
    owned: dict[str, list[TopicIdPartition]] = {}
    for member_id, member in members.items():
        owned[member_id] = _owned(member, topics, counts)
        yield
    base, extra = divmod(sum(counts[topic] for topic in topics), len(members))
    by_owned = yield from sort((-len(partitions), member_id) for member_id, partitions in owned.items())
    kept: set[TopicIdPartition] = set()
    shares: dict[str, list[TopicIdPartition]] = {}
    for number, (_, member_id) in enumerate(by_owned):
        still_there = [tp for tp in owned[member_id] if tp not in kept]
        shares[member_id] = still_there[: base + (number < extra)]
        kept.update(shares[member_id])
        yield
    free = ((topic, index) for topic in ordered_topics for index in range(counts[topic]))
    left = (tp for tp in free if tp not in kept)
    for number, (_, member_id) in enumerate(by_owned):
        missing = base + (number < extra) - len(shares[member_id])
        if missing > 0:
            shares[member_id] += islice(left, missing)
            yield
    targets = {}
    for member_id in members:
        targets[member_id] = _by_topic(shares[member_id])
        yield
    return targets


def _owned(member: MemberSpec, topics: Set[Uuid], counts: Mapping[Uuid, int]) -> list[TopicIdPartition]:
    """Owned partitions that still exist, in a stable order."""
    return [
        (topic, index)
        for topic in sorted(member.assigned)
        if topic in topics
        for index in sorted(member.assigned[topic])
        if index < counts[topic]
    ]


def _by_topic(partitions: Iterable[TopicIdPartition]) -> Assignment:
    grouped: dict[Uuid, set[int]] = {}
    for topic, index in partitions:
        grouped.setdefault(topic, set()).add(index)
    return {topic: partitions_of(indexes) for topic, indexes in grouped.items()}


# -- `range` -------------------------------------------------------------------------------------------


def assign_ranges(members: Mapping[str, MemberSpec], counts: Mapping[Uuid, int]) -> dict[str, Assignment]:
    return finish(range_steps(members, counts))


def range_steps(
    members: Mapping[str, MemberSpec], counts: Mapping[Uuid, int]
) -> Steps[dict[str, Assignment]]:
    keys = yield from sort(_sort_key(member_id, member) for member_id, member in members.items())
    ordered = [member_id for *_, member_id in keys]
    shares: dict[str, dict[Uuid, Set[int]]] = {member_id: {} for member_id in ordered}
    subscribers_of = yield from subscribers_steps({member_id: members[member_id] for member_id in ordered})
    for topic_id, partitions in counts.items():
        subscribers = subscribers_of.pop(topic_id, [])[:partitions]  # the others get nothing
        runs = zip(subscribers, _runs(partitions, len(subscribers)), strict=True)
        for piece in pieces(runs):
            for member_id, run in piece:
                shares[member_id][topic_id] = frozenset(run)
            yield
    return {**shares}


def _sort_key(member_id: str, member: MemberSpec) -> tuple[bool, str, str]:
    """Static members first."""
    return (member.instance_id is None, member.instance_id or member_id, member_id)


def _runs(partitions: int, subscribers: int) -> Iterator[range]:
    """The first members get one more if the count is not divisible."""
    base, extra = divmod(partitions, subscribers or 1)
    start = 0
    for number in range(subscribers):
        end = start + base + (number < extra)
        yield range(start, end)
        start = end


Assignor = Callable[[Mapping[str, MemberSpec], Mapping[Uuid, int]], dict[str, Assignment]]
"""Members by id, and the number of partitions of each topic."""

AssignorSteps = Callable[[Mapping[str, MemberSpec], Mapping[Uuid, int]], Steps[dict[str, Assignment]]]

CONSUMER_ASSIGNOR_STEPS: dict[str, AssignorSteps] = {"uniform": uniform_steps, "range": range_steps}
"""By the name that members vote for."""

CONSUMER_ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""The same, without slicing."""
