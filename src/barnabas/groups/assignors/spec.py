"""What assignors know of a member."""

from __future__ import annotations

from collections.abc import Mapping, Set
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
    return first is None or all(member.topics == first.topics for member in members.values())
