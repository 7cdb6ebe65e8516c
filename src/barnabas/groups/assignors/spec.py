"""A member's subscription and assignment, as assignors see it."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Set
from typing import NamedTuple

from barnabas.common.cooperative import Steps, pieces, sort
from barnabas.common.types import Uuid
from barnabas.groups.modern import Assignment


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
