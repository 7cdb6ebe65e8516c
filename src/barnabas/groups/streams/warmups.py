"""Warm-up tasks: a task with state moves once its new owner has restored the state (KIP-1071, as in Kafka 4.4).

The target assignment is final. Where it moves a task from a member that processes it to another process, the *staged*
assignment leaves the task with its owner and gives the new one a warm-up task, or the standby that it already has.
When the member reports a lag within streams.acceptable.recovery.lag, the group enters another epoch with the same
target, and is staged again. Tasks without state, and those that move within a process or from a member that still
restores them, move immediately; so do tasks of members that never report offsets: Kafka's clients before 4.4.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.groups.streams.members import StreamsMember
from barnabas.groups.streams.tasks import NOTHING, StreamsTask, StreamsTasks
from barnabas.protocol.messages.streams import StreamsGroupHeartbeatRequest, TaskOffset

FIRST_WITH_OFFSETS = 1
"""Version of StreamsGroupHeartbeat with which members report offsets."""

UNKNOWN_OFFSET = (1 << 63) - 1

TaskOffsets = Mapping[StreamsTask, int]


class StagingLimits(NamedTuple):
    """Settings of a group: streams.num.warmup.replicas and streams.acceptable.recovery.lag."""

    warmups: int
    recovery_lag: int


class OffsetReports:
    """Changelog offsets that members report. Kept in memory: a new coordinator gets them with later heartbeats."""

    def __init__(self) -> None:
        self._offsets: dict[str, TaskOffsets] = {}
        self._end_offsets: dict[str, TaskOffsets] = {}
        self.silent: set[str] = set()
        """Members with clients that report no offsets."""

    def __len__(self) -> int:
        return sum(len(offsets) for offsets in (*self._offsets.values(), *self._end_offsets.values()))

    def note(self, request: StreamsGroupHeartbeatRequest, version: int) -> None:
        """Keep what a heartbeat reports; omitted lists are unchanged."""
        member_id = request.member_id
        if version < FIRST_WITH_OFFSETS:
            self.silent.add(member_id)
            return
        self.silent.discard(member_id)
        for stored, listed in (
            (self._offsets, request.task_offsets),
            (self._end_offsets, request.task_end_offsets),
        ):
            if listed is not None:
                stored[member_id] = _by_task(listed)

    def remove(self, member_id: str) -> None:
        self._offsets.pop(member_id, None)
        self._end_offsets.pop(member_id, None)
        self.silent.discard(member_id)

    def is_restoring(self, member_id: str, task: StreamsTask) -> bool:
        """True if an active task is not processed yet: offsets of running tasks are not reported."""
        return task in self._offsets.get(member_id, {})

    def is_caught_up(self, member_id: str, task: StreamsTask, recovery_lag: int) -> bool:
        offset = self._offsets.get(member_id, {}).get(task, UNKNOWN_OFFSET)
        end = self._end_offsets.get(member_id, {}).get(task, UNKNOWN_OFFSET)
        return UNKNOWN_OFFSET not in (offset, end) and end - offset <= recovery_lag


def _by_task(listed: Iterable[TaskOffset]) -> TaskOffsets:
    return {StreamsTask(one.subtopology_id, one.partition): one.offset for one in listed}


@dataclass(frozen=True, slots=True)
class StagedAssignment:
    """Assignments of an epoch that differ from the target, and the tasks that each member waits for."""

    epoch: int
    assignments: Mapping[str, StreamsTasks] = field(default_factory=dict)
    waiting: Mapping[str, Set[StreamsTask]] = field(default_factory=dict)

    def is_ready(self, member_id: str, reports: OffsetReports, limits: StagingLimits) -> bool:
        """True if a task that the member waits for can move."""
        tasks = self.waiting.get(member_id, ())
        if member_id in reports.silent:
            return bool(tasks)
        return any(reports.is_caught_up(member_id, task, limits.recovery_lag) for task in tasks)


def stage(
    epoch: int,
    members: Mapping[str, StreamsMember],
    targets: Mapping[str, StreamsTasks],
    stateful: Collection[str],
    reports: OffsetReports,
    limits: StagingLimits,
) -> StagedAssignment:
    """`stateful` are ids of subtopologies."""
    moved = {
        task: member_id
        for member_id, target in targets.items()
        if member_id in members
        for task in target.active.difference(members[member_id].assigned.active)
        if task.subtopology_id in stateful
    }
    if not moved:
        return StagedAssignment(epoch)
    staging = _Staging(members, targets, reports, limits)
    staged = [
        _Move(task, owner, moved[task])
        for task in sorted(moved)
        if (owner := staging.owners.get(task)) is not None and not staging.is_ready(task, owner, moved[task])
    ]
    waiting: dict[str, set[StreamsTask]] = defaultdict(set)
    for move in staged:
        waiting[move.target].add(move.task)
    return StagedAssignment(epoch, staging.assignments(staged), waiting)


class _Move(NamedTuple):
    task: StreamsTask
    owner: str
    target: str


class _Tasks:
    """A member's target, changeable."""

    def __init__(self, target: StreamsTasks) -> None:
        self.active = set(target.active)
        self.standby = set(target.standby)
        self.warmup = set(target.warmup)

    def frozen(self) -> StreamsTasks:
        return StreamsTasks(frozenset(self.active), frozenset(self.standby), frozenset(self.warmup))


class _Staging:
    def __init__(
        self,
        members: Mapping[str, StreamsMember],
        targets: Mapping[str, StreamsTasks],
        reports: OffsetReports,
        limits: StagingLimits,
    ) -> None:
        self._members = members
        self._targets = targets
        self._reports = reports
        self._limits = limits
        # Without tasks pending revocation: those are moving already.
        self.owners = {task: member_id for member_id, one in members.items() for task in one.assigned.active}
        self._by_process: dict[str, list[str]] = defaultdict(list)
        for member_id, member in members.items():
            self._by_process[member.process_id].append(member_id)
        self._patched: dict[str, _Tasks] = {}

    def is_ready(self, task: StreamsTask, owner: str, target: str) -> bool:
        process_id = self._members[target].process_id
        return (
            self._members[owner].process_id == process_id
            or target in self._reports.silent
            or self._reports.is_restoring(owner, task)
            or any(self._has_restored(member_id, task) for member_id in self._by_process[process_id])
        )

    def _has_restored(self, member_id: str, task: StreamsTask) -> bool:
        held = self._members[member_id].assigned
        has_copy = task in held.standby or task in held.warmup
        return has_copy and self._reports.is_caught_up(member_id, task, self._limits.recovery_lag)

    def assignments(self, staged: Iterable[_Move]) -> dict[str, StreamsTasks]:
        cold: list[_Move] = []
        for move in staged:
            self._hold_back(move)
            if move.task in self._members[move.target].assigned.standby:
                self._patch(move.target).standby.add(move.task)
            else:
                cold.append(move)
        # Warm-ups in progress keep their slots.
        cold.sort(key=lambda move: move.task not in self._members[move.target].assigned.warmup)
        for move in cold[: self._limits.warmups]:
            self._patch(move.target).warmup.add(move.task)
        return {member_id: tasks.frozen() for member_id, tasks in self._patched.items()}

    def _hold_back(self, move: _Move) -> None:
        """A process has a task once: standbys of the target give way on both processes until the task has moved."""
        self._patch(move.target).active.discard(move.task)
        self._patch(move.owner).active.add(move.task)
        for end in (move.owner, move.target):
            for member_id in self._by_process[self._members[end].process_id]:
                if move.task in self._targets.get(member_id, NOTHING).standby:
                    self._patch(member_id).standby.discard(move.task)

    def _patch(self, member_id: str) -> _Tasks:
        if member_id not in self._patched:
            self._patched[member_id] = _Tasks(self._targets.get(member_id, NOTHING))
        return self._patched[member_id]
