"""Reconciliation of a member with its target, without blocking unrelated members.

    STABLE --(a newer target)--> UNREVOKED --(revoked all)--> UNRELEASED --(others let go)--> STABLE
                    \\_______ nothing to revoke _________________/        \\__ nothing to wait for __/

A member keeps its epoch until it has revoked the partitions it no longer owns: only then does it count as caught up
with the target. It receives each new partition as soon as no other member owns it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import NamedTuple

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import Uuid
from barnabas.groups.consumer.member import ConsumerMember, MemberState, Owned, contains_any
from barnabas.groups.modern import Assignment

Reported = Sequence[tuple[Uuid, Sequence[int]]]
"""Partitions that a member reports as owned."""


class MemberTarget(NamedTuple):
    """Target of a member. `is_taken` is True for partitions that another member owns."""

    epoch: int
    target: Assignment
    subscribed: Set[Uuid]
    is_taken: Callable[[Uuid, int], bool]


def reconcile(
    member: ConsumerMember, goal: MemberTarget, reported: Reported | None, *, subscription_changed: bool
) -> ConsumerMember:
    """The member after this heartbeat; itself if nothing changes. `reported` is None if it reported no partitions."""
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


def _still_has(epochs: Owned, reported: Reported | None) -> bool:
    return reported is None or contains_any(epochs, reported)


def _drop_unsubscribed(
    member: ConsumerMember, goal: MemberTarget, reported: Reported | None
) -> ConsumerMember:
    """Revoke topics that it no longer subscribes to immediately; the next target may come later."""
    kept = {topic: epochs for topic, epochs in member.owned.items() if topic in goal.subscribed}
    if len(kept) == len(member.owned):
        return member
    revoking = dict(member.revoking)
    for topic in member.owned.keys() - kept.keys():
        revoking[topic] = {**revoking.get(topic, {}), **member.owned[topic]}
    if _still_has(revoking, reported):
        return member.moved(member.member_epoch, MemberState.UNREVOKED, kept, revoking)
    return member.moved(member.member_epoch, member.state, kept, member.revoking)


def _move(member: ConsumerMember, goal: MemberTarget, reported: Reported | None) -> ConsumerMember:
    kept: dict[Uuid, dict[int, int]] = {}
    revoking: dict[Uuid, dict[int, int]] = {}
    coming: dict[Uuid, dict[int, int]] = {}
    waits_for_others = False
    for topic in goal.target.keys() | member.owned.keys():
        wanted = goal.target.get(topic, frozenset()) if topic in goal.subscribed else frozenset()
        has = member.owned.get(topic, {})
        if stays := {index: epoch for index, epoch in has.items() if index in wanted}:
            kept[topic] = stays
        if released := {index: epoch for index, epoch in has.items() if index not in wanted}:
            revoking[topic] = released
        missing = [index for index in wanted if index not in has]
        free = [index for index in missing if not goal.is_taken(topic, index)]
        waits_for_others |= len(free) < len(missing)
        if free:
            coming[topic] = dict.fromkeys(free, goal.epoch)
    if revoking and _still_has(revoking, reported):
        return member.moved(member.member_epoch, MemberState.UNREVOKED, kept, revoking)
    for topic, epochs in coming.items():
        kept[topic] = {**kept.get(topic, {}), **epochs}
    state = MemberState.UNRELEASED if waits_for_others else MemberState.STABLE
    return member.moved(goal.epoch, state, kept, {})
