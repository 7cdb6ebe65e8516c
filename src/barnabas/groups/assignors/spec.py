"""What assignors know of a member."""

from __future__ import annotations

from collections.abc import Mapping, Set
from itertools import chain
from typing import NamedTuple

from barnabas.groups.modern import Assignment
from barnabas.types import Uuid


class MemberSpec(NamedTuple):
    """`topics` are the ids of subscribed topics that exist; `assigned` is the present target."""

    topics: Set[Uuid]
    assigned: Assignment
    instance_id: str | None = None


def all_subscribe_alike(members: Mapping[str, MemberSpec]) -> bool:
    first = next(iter(members.values()), None)
    return first is None or all(
        member.topics is first.topics or member.topics == first.topics for member in members.values()
    )


def subscribers_by_topic(members: Mapping[str, MemberSpec]) -> dict[Uuid, list[str]]:
    """Who subscribes to each topic, in the order of the members. Topics with the same subscribers have the same list:
    a thousand members with one subscription of thousands of topics cost as much as one of them."""
    kinds: dict[int, list[str]] = {}
    for member_id, member in members.items():
        kinds.setdefault(id(member.topics), []).append(member_id)
    containing: dict[Uuid, list[int]] = {}
    for kind, alike in kinds.items():
        for topic in members[alike[0]].topics:
            containing.setdefault(topic, []).append(kind)
    place = {member_id: number for number, member_id in enumerate(members)}
    lists: dict[tuple[int, ...], list[str]] = {}
    found = {}
    for topic, among in containing.items():
        key = tuple(among)
        if key not in lists:
            lists[key] = sorted(chain.from_iterable(map(kinds.__getitem__, key)), key=place.__getitem__)
        found[topic] = lists[key]
    return found
