"""`range`: each subscriber gets a contiguous range of every topic's partitions.

Partition n of topics with equally many partitions and the same subscribers goes to one member, so that it can
join them. Members are ordered by instance id, then by member id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from barnabas.common.cooperative import Steps, finish, pieces, sort
from barnabas.common.types import Uuid
from barnabas.groups.assignors.spec import MemberSpec, subscribers_steps
from barnabas.groups.modern import Assignment


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
    least, extra = divmod(partitions, subscribers or 1)
    start = 0
    for number in range(subscribers):
        end = start + least + (number < extra)
        yield range(start, end)
        start = end
