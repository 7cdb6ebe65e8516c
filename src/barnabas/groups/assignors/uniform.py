"""`uniform`: everybody gets as many partitions as everybody else, and keeps what it has as far as that allows.

When all subscribe to the same topics, the sizes follow from the numbers alone and few partitions move: who has most
already gets the larger shares. Otherwise partitions move from the busiest to the idlest subscriber of each topic until
no move helps. Racks are not looked at, as in Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from itertools import islice

from barnabas.groups.assignors.balance import Balance
from barnabas.groups.assignors.spec import MemberSpec, all_subscribe_alike
from barnabas.groups.modern import Assignment, partitions_of
from barnabas.common.cooperative import Steps, finish, sort
from barnabas.common.types import Uuid

Place = tuple[Uuid, int]


def assign_uniformly(members: Mapping[str, MemberSpec], counts: Mapping[Uuid, int]) -> dict[str, Assignment]:
    return finish(uniform_steps(members, counts))


def uniform_steps(
    members: Mapping[str, MemberSpec], counts: Mapping[Uuid, int]
) -> Steps[dict[str, Assignment]]:
    if not members:
        return {}
    if not all_subscribe_alike(members):
        return (yield from Balance(members, counts).run())
    return (yield from _share_evenly(members, counts))


def _share_evenly(
    members: Mapping[str, MemberSpec], counts: Mapping[Uuid, int]
) -> Steps[dict[str, Assignment]]:
    topics = next(iter(members.values())).topics
    ordered_topics = yield from sort(topics)
    owned: dict[str, list[Place]] = {}
    for member_id, member in members.items():
        owned[member_id] = _owned(member, topics, counts)
        yield
    least, extra = divmod(sum(counts[topic] for topic in topics), len(members))
    by_owned = yield from sort((-len(places), member_id) for member_id, places in owned.items())
    kept: set[Place] = set()
    shares: dict[str, list[Place]] = {}
    for number, (_, member_id) in enumerate(by_owned):
        still_there = [place for place in owned[member_id] if place not in kept]
        shares[member_id] = still_there[: least + (number < extra)]
        kept.update(shares[member_id])
        yield
    free = ((topic, index) for topic in ordered_topics for index in range(counts[topic]))
    left = (place for place in free if place not in kept)
    for number, (_, member_id) in enumerate(by_owned):
        missing = least + (number < extra) - len(shares[member_id])
        if missing > 0:
            shares[member_id] += islice(left, missing)
            yield
    targets = {}
    for member_id in members:
        targets[member_id] = _by_topic(shares[member_id])
        yield
    return targets


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
    return {topic: partitions_of(indexes) for topic, indexes in grouped.items()}
