"""One step of a member towards its target assignment.

    STABLE -------------- new target, nothing to give up ---------> STABLE or UNRELEASED_TASKS, in the target's epoch
    STABLE -------------- new target, tasks to give up -----------> UNREVOKED_TASKS, in the old epoch
    UNREVOKED_TASKS ----- the member owns none of them any more --> as from STABLE, one epoch on
    UNRELEASED_TASKS ---- tasks have become free -----------------> STABLE when none is waited for

A member gets an active task only when no process has it, and a standby only when its own process has the task in no
role: a process locks its state directories. A member's own warm-up task becomes active in place, with the state that it
has restored. Revocations come first, so no member waits for another waiting member.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.groups.streams.group import TaskOwners
from barnabas.groups.streams.members import StreamsMember, StreamsMemberState
from barnabas.groups.streams.tasks import HeldTasks, StreamsTask, StreamsTasks, TaskSet


class StreamsTarget(NamedTuple):
    epoch: int
    tasks: StreamsTasks


def reconcile(
    member: StreamsMember, target: StreamsTarget, owners: TaskOwners, owned: StreamsTasks | None
) -> StreamsMember:
    """The member after this heartbeat; `owned` are the tasks that it reports, if any."""
    if member.state is StreamsMemberState.STABLE:
        if member.member_epoch == target.epoch:
            return member
        return _advance(member, member.member_epoch, target, owners, owned)
    if member.state is StreamsMemberState.UNREVOKED_TASKS:
        if owned is None or member.pending_revocation.overlaps(owned):
            return member
        return _advance(member, member.member_epoch + 1, target, owners, owned)
    if member.state is StreamsMemberState.UNRELEASED_TASKS:
        return _advance(member, member.member_epoch, target, owners, owned)
    if owned is None or owned:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The streams group member is in a unknown state. "
            "The member must abandon all its tasks and rejoin.",
        )
    return _advance(member, target.epoch, target, owners, owned)


class _Difference(NamedTuple):
    kept: HeldTasks
    revoked: HeldTasks
    gained: HeldTasks
    waits: bool


def _advance(
    member: StreamsMember, epoch: int, target: StreamsTarget, owners: TaskOwners, owned: StreamsTasks | None
) -> StreamsMember:
    difference = _compare(member, target, owners)
    revoked = difference.revoked
    if revoked and (owned is None or revoked.overlaps(owned)):
        return member.advance(epoch, StreamsMemberState.UNREVOKED_TASKS, difference.kept, revoked)
    state = StreamsMemberState.UNRELEASED_TASKS if difference.waits else StreamsMemberState.STABLE
    return member.advance(target.epoch, state, _merged(difference.kept, difference.gained))


def _compare(member: StreamsMember, target: StreamsTarget, owners: TaskOwners) -> _Difference:
    has, wanted = member.assigned, target.tasks
    promoted = has.warmup & wanted.active

    def is_taken(task: StreamsTask) -> bool:
        has_copy = task not in promoted and owners.has_copy(member.process_id, task)
        return has_copy or owners.active(task) is not None

    def is_here(task: StreamsTask) -> bool:
        return owners.has(member.process_id, task)

    active = _gained(has.active.keys(), wanted.active, is_taken)
    standby = _gained(has.standby, wanted.standby, is_here)
    warmup = _gained(has.warmup, wanted.warmup, is_here)
    return _Difference(
        kept=HeldTasks(
            {task: epoch for task, epoch in has.active.items() if task in wanted.active},
            has.standby & wanted.standby,
            (has.warmup & wanted.warmup) | promoted,
        ),
        revoked=HeldTasks(
            {task: epoch for task, epoch in has.active.items() if task not in wanted.active},
            has.standby - wanted.standby,
            has.warmup - wanted.warmup - promoted,
        ),
        gained=HeldTasks(dict.fromkeys(sorted(active.free), target.epoch), standby.free, warmup.free),
        waits=active.waits or standby.waits or warmup.waits,
    )


class _Gained(NamedTuple):
    free: TaskSet
    waits: bool


def _gained(
    has: Collection[StreamsTask], wanted: TaskSet, is_unreleased: Callable[[StreamsTask], bool]
) -> _Gained:
    missing = wanted.difference(has)
    free = frozenset(task for task in missing if not is_unreleased(task))
    return _Gained(free, len(free) < len(missing))


def _merged(kept: HeldTasks, gained: HeldTasks) -> HeldTasks:
    active = {**kept.active, **gained.active}
    return HeldTasks(
        active, kept.standby | gained.standby, (kept.warmup | gained.warmup).difference(gained.active)
    )
