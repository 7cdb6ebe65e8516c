"""Target assignments of large groups: computed in slices, written in parts.

A heartbeat that finds a small group without a target for its epoch computes one immediately, and its member receives
it. For a large group a computation starts, and heartbeats keep the current target meanwhile. The computation uses the
group as it was at the start and yields the target of that epoch, even if the epoch has been bumped since: members that
join and leave continuously cannot starve the others. The next heartbeat notices that the newest epoch has no target.

Target records precede the record of their epoch, a few at a time. If the remaining ones are never written, the group's
epoch has no target, and its coordinator computes one. Until then a partition may be in the targets of two members, or
of none; reconciliation never assigns a partition that another member still owns, whatever a target says.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterator, Sized
from typing import Any, Generic, NamedTuple, TypeVar

from barnabas.common.clock import Turn, TurnLimit
from barnabas.common.cooperative import PIECE, Steps
from barnabas.coordination import CoordinatorRecord, CoordinatorResult
from barnabas.groups.manager import ShardContext
from barnabas.groups.modern import ModernGroup

LARGE = 3000
"""Members, topics in their subscriptions and partitions together: a few milliseconds."""

LIMIT = TurnLimit(seconds=0.003)
PART_BYTES = 16 << 10
"""Of target records that are appended and replayed in one turn."""

G = TypeVar("G", bound=ModernGroup[Any, Any])
A = TypeVar("A", bound=Sized)


class TargetAssignments(NamedTuple, Generic[G, A]):
    """Target operations of a group type. `compute` must not access the group after it has started."""

    group_class: type[G]
    compute: Callable[[G], Steps[dict[str, A]]]
    target_record: Callable[[str, str, A], CoordinatorRecord]
    epoch_record: Callable[[str, int, int], CoordinatorRecord]


class _Job:
    __slots__ = ("group", "parts")

    def __init__(self, group: ModernGroup[Any, Any], parts: Iterator[list[CoordinatorRecord] | None]) -> None:
        self.group = group
        self.parts = parts


class Assigning(Generic[G, A]):
    def __init__(self, context: ShardContext, targets: TargetAssignments[G, A]) -> None:
        self._context = context
        self._targets = targets
        self._jobs: dict[str, _Job | None] = {}

    def is_running(self, group_id: str) -> bool:
        return group_id in self._jobs

    def start(self, group_id: str) -> None:
        """Start in a later turn, when the records of the current step are part of the group."""
        if group_id not in self._jobs:
            self._jobs[group_id] = None
            self._context.soon(lambda: self._begin(group_id))

    def _begin(self, group_id: str) -> CoordinatorResult[None]:
        group = self._context.groups.get(group_id)
        if not isinstance(group, self._targets.group_class) or group.assignment_epoch >= group.epoch:
            del self._jobs[group_id]
            return CoordinatorResult(None)
        job = _Job(group, self._parts(group, group.epoch))
        self._jobs[group_id] = job
        return self._continue(job)

    def _continue(self, job: _Job) -> CoordinatorResult[None]:
        result: CoordinatorResult[None] = CoordinatorResult(None)
        group_id = job.group.group_id
        if self._jobs.get(group_id) is not job:
            return result  # a part of it could not be written
        is_over = self._context.groups.get(group_id) is not job.group
        try:
            is_over = is_over or self._take_steps(job, result.records)
        except BaseException:
            del self._jobs[group_id]
            raise
        if is_over:
            del self._jobs[group_id]
        else:
            self._context.soon(lambda: self._continue(job))
        if result.records:
            result.revert = lambda: self._give_up(group_id)
        return result

    def _take_steps(self, job: _Job, records: list[CoordinatorRecord]) -> bool:
        """Run for one slice, which ends at the first part to write; True if nothing is left."""
        turn = Turn(LIMIT, self._context.clock.monotonic)
        # Sets with thousands of entries are few objects: the collector would defer them, and then traverse
        # millions of entries at once.
        gc.collect(0)
        for part in job.parts:
            if part:
                records += part
                return False
            if turn.is_over():
                return False
        return True

    def _give_up(self, group_id: str) -> None:
        """Drop the job; the next heartbeat starts again."""
        self._jobs.pop(group_id, None)

    def _parts(self, group: G, epoch: int) -> Generator[list[CoordinatorRecord] | None, None, None]:
        """Yield None after each step of the computation, then records, which are appended before the next step."""
        instances = {member_id: member.instance_id for member_id, member in group.members.items()}
        targets = yield from self._targets.compute(group)
        part: list[CoordinatorRecord] = []
        size = looked_at = 0
        for member_id in list(targets):
            target = targets.pop(member_id)  # freeing all of them at once would take long
            holder = group.static_members.get(instances[member_id] or "", member_id)
            if holder in group.members and group.targets.get(holder) != target:
                record = self._targets.target_record(group.group_id, holder, target)
                part.append(record)
                size += len(record.key) + len(record.value or b"")
            looked_at += 1 + len(target)
            if size >= PART_BYTES or looked_at >= PIECE:
                yield part
                part, size, looked_at = [], 0, 0
        yield [*part, self._targets.epoch_record(group.group_id, epoch, self._context.clock.now_ms())]
