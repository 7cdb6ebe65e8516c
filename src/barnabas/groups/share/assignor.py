"""The `simple` assignor of share groups: every partition has a member, every member a partition, evenly spread.

Members with equal subscriptions are spread over all partitions together, others topic by topic. A member keeps
its partitions where balance allows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Set
from typing import Any, TypeVar

from barnabas.common.cooperative import Steps, finish, pieces
from barnabas.common.types import Uuid
from barnabas.groups.modern import Assignment, partitions_of

TopicIdPartition = tuple[Uuid, int]
P = TypeVar("P")

FEW_TOPICS = 50
"""Partitions visited in one step."""

FEW_MEMBERS = 20
"""Members whose targets grow in one step: members with equal topics grow together."""


def assign(
    subscriptions: Mapping[str, Set[Uuid]],
    partitions: Mapping[Uuid, Set[int]],
    present: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """Target of each member. `subscriptions` are the topics of each member, `present` its current partitions."""
    return finish(assign_steps(subscriptions, partitions, present))


def assign_steps(
    subscriptions: Mapping[str, Set[Uuid]],
    partitions: Mapping[Uuid, Set[int]],
    present: Mapping[str, Assignment],
) -> Steps[dict[str, Assignment]]:
    members = sorted(subscriptions)
    served: dict[int, frozenset[Uuid]] = {}  # members with the same subscription share it
    topics = []
    for member in members:
        wanted = subscriptions[member]
        if id(wanted) not in served:
            served[id(wanted)] = frozenset(wanted & partitions.keys())
            yield
        topics.append(served[id(wanted)])
    if all(subscribed is topics[0] or subscribed == topics[0] for subscribed in topics):
        shared = topics[0] if topics else frozenset()
        return (yield from _all_together(members, {topic: partitions[topic] for topic in shared}, present))
    return (yield from _topic_by_topic(members, subscriptions, partitions, present))


def _all_together(
    members: list[str], partitions: Mapping[Uuid, Set[int]], present: Mapping[str, Assignment]
) -> Steps[dict[str, Assignment]]:
    tps: list[TopicIdPartition] = []
    for piece in pieces(sorted(partitions), FEW_TOPICS):
        tps += [(topic, index) for topic in piece for index in sorted(partitions[topic])]
        yield
    every = set(tps)
    held: list[tuple[str, TopicIdPartition]] = []
    for member in members:
        held += [(member, tp) for tp in sorted(_partitions(present.get(member, {})) & every)]
        yield
    assignments: dict[str, list[TopicIdPartition]] = {member: [] for member in members}
    for spread in pieces((yield from _spread(members, tps, held))):
        for member, tp in spread:
            assignments[member].append(tp)
        yield
    targets = {}
    for member in members:
        targets[member] = _by_topic(assignments.pop(member))
        yield
    return targets


def _topic_by_topic(
    members: list[str],
    subscriptions: Mapping[str, Set[Uuid]],
    partitions: Mapping[Uuid, Set[int]],
    present: Mapping[str, Assignment],
) -> Steps[dict[str, Assignment]]:
    """Keeps no object per partition and member: with millions of them garbage collection would take long."""
    targets: dict[str, dict[Uuid, frozenset[int]]] = {member: {} for member in members}
    for topic, indexes in sorted(partitions.items()):
        subscribers = [member for member in members if topic in subscriptions[member]]
        held = [
            (member, index)
            for member in subscribers
            for index in sorted(present.get(member, {}).get(topic, ()))
            if index in indexes
        ]
        assignments: dict[str, set[int]] = {}
        for member, index in (yield from _spread(subscribers, sorted(indexes), held)):
            assignments.setdefault(member, set()).add(index)
        for piece in pieces(assignments.items(), FEW_MEMBERS):
            for member, its_indexes in piece:
                targets[member][topic] = partitions_of(its_indexes)
            yield
    return dict(targets)


def _spread(members: list[str], tps: list[P], held: list[tuple[str, P]]) -> Steps[list[tuple[str, P]]]:
    """Pair all members with partitions; members keep theirs where balance allows it."""
    if not members or not tps:
        return []
    if len(members) <= len(tps):
        return (yield from _matched(members, tps, held))
    pairs = yield from _matched(tps, members, [(tp, member) for member, tp in held])
    return [(member, tp) for tp, member in pairs]


def _matched(
    few: Collection[object], many: Collection[object], kept: Collection[tuple[object, object]]
) -> Steps[list[tuple[Any, Any]]]:
    """Assign one of `few` to each of `many`, evenly, keeping existing pairs where possible."""
    base, larger = divmod(len(many), len(few))
    load = dict.fromkeys(few, 0)
    matched: dict[object, object] = {}
    for piece in pieces(kept):
        for one, other in piece:
            is_larger = load[one] == base and larger > 0
            if other not in matched and (load[one] < base or is_larger):
                larger -= is_larger
                load[one] += 1
                matched[other] = one
        yield
    free = deque(other for other in many if other not in matched)
    yield
    for one in few:
        while load[one] < base and free:
            matched[free.popleft()] = one
            load[one] += 1
        yield
    for one in few:
        if not free:
            break
        if load[one] == base:
            matched[free.popleft()] = one
            load[one] += 1
    return [(one, other) for other, one in matched.items()]


def _partitions(assignment: Assignment) -> set[TopicIdPartition]:
    return {(topic, index) for topic, indexes in assignment.items() for index in indexes}


def _by_topic(tps: Collection[TopicIdPartition]) -> Assignment:
    topics: dict[Uuid, set[int]] = {}
    for topic, index in sorted(tps):
        topics.setdefault(topic, set()).add(index)
    return {topic: partitions_of(indexes) for topic, indexes in topics.items()}
