"""`uniform`: everybody gets as many partitions as everybody else, and keeps what it has as far as that allows.

When all subscribe to the same topics, the sizes follow from the numbers alone and few partitions move: who has most
already gets the larger shares. Otherwise partitions move from the busiest to the idlest subscriber of each topic until
no move helps. Racks are not looked at, as in Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from barnabas.groups.assignors.balance import Balance
from barnabas.groups.assignors.spec import MemberSpec, all_subscribe_alike
from barnabas.groups.modern import Assignment
from barnabas.types import Uuid

Place = tuple[Uuid, int]


def assign_uniformly(members: Mapping[str, MemberSpec], counts: Mapping[Uuid, int]) -> dict[str, Assignment]:
    if not members:
        return {}
    if not all_subscribe_alike(members):
        return Balance(members, counts).run()
    return _share_evenly(members, counts)


def _share_evenly(members: Mapping[str, MemberSpec], counts: Mapping[Uuid, int]) -> dict[str, Assignment]:
    topics = next(iter(members.values())).topics
    places = [(topic, index) for topic in sorted(topics) for index in range(counts[topic])]
    owned = {member_id: _owned(member, topics, counts) for member_id, member in members.items()}
    least, extra = divmod(len(places), len(members))
    ordered = sorted(members, key=lambda member_id: (-len(owned[member_id]), member_id))
    kept: set[Place] = set()
    shares: dict[str, list[Place]] = {}
    for number, member_id in enumerate(ordered):
        shares[member_id] = [place for place in owned[member_id] if place not in kept][
            : least + (number < extra)
        ]
        kept.update(shares[member_id])
    free = iter([place for place in places if place not in kept])
    for number, member_id in enumerate(ordered):
        missing = least + (number < extra) - len(shares[member_id])
        shares[member_id] += [next(free) for _ in range(missing)]
    return {member_id: _by_topic(shares[member_id]) for member_id in members}


def _owned(member: MemberSpec, topics: Set[Uuid], counts: Mapping[Uuid, int]) -> list[Place]:
    """What it has of topics and partitions that still exist, always in the same order."""
    return [
        (topic, index)
        for topic in sorted(member.assigned)
        if topic in topics
        for index in sorted(member.assigned[topic])
        if index < counts[topic]
    ]


def _by_topic(places: Iterable[Place]) -> Assignment:
    grouped: dict[Uuid, set[int]] = {}
    for topic, index in places:
        grouped.setdefault(topic, set()).add(index)
    return {topic: frozenset(indexes) for topic, indexes in grouped.items()}
