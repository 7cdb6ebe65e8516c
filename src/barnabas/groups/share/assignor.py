"""The assignor `simple` of share groups: every partition has a member, every member a partition, all about equal.

Members that all subscribe to the same topics are spread over all partitions together, others topic by topic. What a
member has it keeps as long as that leaves the balance as it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Set
from typing import Any

from barnabas.groups.modern import Assignment
from barnabas.types import Uuid

Place = tuple[Uuid, int]


def assign(
    subscriptions: Mapping[str, Set[Uuid]],
    partitions: Mapping[Uuid, Set[int]],
    present: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """What each member shall read. `subscriptions` are the topics of each member, `present` what it has."""
    members = sorted(subscriptions)
    had = {member: _places(present.get(member, {})) for member in members}
    given: dict[str, set[Place]] = {member: set() for member in members}
    served: dict[int, frozenset[Uuid]] = {}  # members with the same subscription share it
    topics = []
    for member in members:
        wanted = subscriptions[member]
        if id(wanted) not in served:
            served[id(wanted)] = frozenset(wanted & partitions.keys())
        topics.append(served[id(wanted)])
    if all(mine is topics[0] or mine == topics[0] for mine in topics):
        every = [place for topic in sorted(topics[0]) for place in _all(topic, partitions)] if topics else []
        _spread(members, every, had, given)
    else:
        for topic in sorted(partitions):
            subscribers = [member for member in members if topic in subscriptions[member]]
            _spread(subscribers, _all(topic, partitions), had, given)
    return {member: _by_topic(places) for member, places in given.items()}


def _spread(
    members: list[str],
    places: list[Place],
    had: Mapping[str, Set[Place]],
    given: dict[str, set[Place]],
) -> None:
    if not members or not places:
        return
    wanted = set(places)
    if len(members) <= len(places):
        pairs = [(member, place) for member in members for place in sorted(had[member] & wanted)]
        for member, place in _matched(members, places, pairs):
            given[member].add(place)
    else:
        pairs_back = [(place, member) for member in members for place in sorted(had[member] & wanted)]
        for place, member in _matched(places, members, pairs_back):
            given[member].add(place)


def _matched(
    few: Collection[object], many: Collection[object], kept: Collection[tuple[object, object]]
) -> list[tuple[Any, Any]]:
    """Give each of the many one of the few, so that those have about the same number, keeping what can be kept."""
    least, larger = divmod(len(many), len(few))
    load = dict.fromkeys(few, 0)
    matched: dict[object, object] = {}
    for one, other in kept:
        if other in matched:
            continue
        if load[one] < least:
            load[one] += 1
            matched[other] = one
        elif load[one] == least and larger:
            larger -= 1
            load[one] += 1
            matched[other] = one
    free = deque(other for other in many if other not in matched)
    for one in few:
        while load[one] < least and free:
            matched[free.popleft()] = one
            load[one] += 1
    for one in few:
        if not free:
            break
        if load[one] == least:
            matched[free.popleft()] = one
            load[one] += 1
    return [(one, other) for other, one in matched.items()]


def _all(topic: Uuid, partitions: Mapping[Uuid, Set[int]]) -> list[Place]:
    return [(topic, index) for index in sorted(partitions[topic])]


def _places(assignment: Assignment) -> set[Place]:
    return {(topic, index) for topic, indexes in assignment.items() for index in indexes}


def _by_topic(places: Set[Place]) -> Assignment:
    topics: dict[Uuid, set[int]] = {}
    for topic, index in sorted(places):
        topics.setdefault(topic, set()).add(index)
    return {topic: frozenset(indexes) for topic, indexes in topics.items()}
