"""How one member moves towards its target, without making others wait who do not hold what it needs.

    STABLE --(a newer target)--> UNREVOKED --(revoked all)--> UNRELEASED --(others let go)--> STABLE
                    \\_______ nothing to revoke _________________/        \\__ nothing to wait for __/

A member keeps its epoch until it has given up what is no longer its own: only then may others be told that it is
behind the target no longer. What it shall get comes as soon as nobody else has it, partition by partition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import NamedTuple

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import Uuid
from barnabas.groups.consumer.member import ConsumerMember, MemberState, Owned, contains_any
from barnabas.groups.modern import Assignment

Reported = Sequence[tuple[Uuid, Sequence[int]]]
"""The partitions that a member says it has."""


class Goal(NamedTuple):
    """Where a member shall get. `is_taken` tells whether another member has a partition."""

    epoch: int
    target: Assignment
    subscribed: Set[Uuid]
    is_taken: Callable[[Uuid, int], bool]


def reconcile(
    member: ConsumerMember, goal: Goal, reported: Reported | None, *, subscription_changed: bool
) -> ConsumerMember:
    """The member after this heartbeat; itself when it cannot move. `reported` is None when it said nothing."""
    if member.state is MemberState.STABLE and member.member_epoch == goal.epoch:
        return _drop_unsubscribed(member, goal, reported) if subscription_changed else member
    if member.state is MemberState.UNREVOKED and _still_has(member.revoking, reported):
        return _drop_unsubscribed(member, goal, reported) if subscription_changed else member
    if member.state is MemberState.UNKNOWN and (reported is None or reported):
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
        )
    return _move(member, goal, reported)


def _still_has(places: Owned, reported: Reported | None) -> bool:
    return reported is None or contains_any(places, reported)


def _drop_unsubscribed(member: ConsumerMember, goal: Goal, reported: Reported | None) -> ConsumerMember:
    """Topics that it no longer wants are taken away at once; the next target may come later."""
    kept = {topic: places for topic, places in member.owned.items() if topic in goal.subscribed}
    if len(kept) == len(member.owned):
        return member
    revoking = dict(member.revoking)
    for topic in member.owned.keys() - kept.keys():
        revoking[topic] = {**revoking.get(topic, {}), **member.owned[topic]}
    if _still_has(revoking, reported):
        return member.moved(member.member_epoch, MemberState.UNREVOKED, kept, revoking)
    return member.moved(member.member_epoch, member.state, kept, member.revoking)


def _move(member: ConsumerMember, goal: Goal, reported: Reported | None) -> ConsumerMember:
    kept: dict[Uuid, dict[int, int]] = {}
    revoking: dict[Uuid, dict[int, int]] = {}
    coming: dict[Uuid, dict[int, int]] = {}
    waits_for_others = False
    for topic in goal.target.keys() | member.owned.keys():
        wanted = goal.target.get(topic, frozenset()) if topic in goal.subscribed else frozenset()
        has = member.owned.get(topic, {})
        if stays := {index: epoch for index, epoch in has.items() if index in wanted}:
            kept[topic] = stays
        if goes := {index: epoch for index, epoch in has.items() if index not in wanted}:
            revoking[topic] = goes
        missing = [index for index in wanted if index not in has]
        free = [index for index in missing if not goal.is_taken(topic, index)]
        waits_for_others |= len(free) < len(missing)
        if free:
            coming[topic] = dict.fromkeys(free, goal.epoch)
    if revoking and _still_has(revoking, reported):
        return member.moved(member.member_epoch, MemberState.UNREVOKED, kept, revoking)
    for topic, places in coming.items():
        kept[topic] = {**kept.get(topic, {}), **places}
    state = MemberState.UNRELEASED if waits_for_others else MemberState.STABLE
    return member.moved(goal.epoch, state, kept, {})
