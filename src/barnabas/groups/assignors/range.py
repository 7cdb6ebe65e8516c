"""`range`: of every topic, each subscriber gets a run of neighbouring partitions.

Partition n of topics with equally many partitions and the same subscribers goes to one member, so that it can
join them. Who comes first is settled by instance id, then by member id.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from barnabas.groups.assignors.spec import MemberSpec, subscribers_by_topic
from barnabas.groups.modern import Assignment
from barnabas.types import Uuid


def assign_ranges(members: Mapping[str, MemberSpec], counts: Mapping[Uuid, int]) -> dict[str, Assignment]:
    ordered = sorted(members, key=lambda member_id: _place(member_id, members[member_id]))
    shares: dict[str, dict[Uuid, Set[int]]] = {member_id: {} for member_id in ordered}
    subscribers_of = subscribers_by_topic({member_id: members[member_id] for member_id in ordered})
    for topic_id, partitions in counts.items():
        subscribers = subscribers_of.get(topic_id, [])[:partitions]  # nothing is left for those behind
        for member_id, run in zip(subscribers, _runs(partitions, len(subscribers)), strict=True):
            shares[member_id][topic_id] = frozenset(run)
    return {**shares}


def _place(member_id: str, member: MemberSpec) -> tuple[bool, str]:
    """Static members first."""
    return (member.instance_id is None, member.instance_id or member_id)


def _runs(partitions: int, subscribers: int) -> list[range]:
    """The first few get one more when it does not come out even."""
    if not subscribers:
        return []
    least, extra = divmod(partitions, subscribers)
    runs, start = [], 0
    for number in range(subscribers):
        end = start + least + (number < extra)
        runs.append(range(start, end))
        start = end
    return runs
