"""Targets of large groups: computed a turn at a time, and written in parts.

A heartbeat that finds a small group without a target for its epoch computes one at once, and its member gets it. If the
group is large, a computation begins, and heartbeats go on with the target that there is, as they do between two
assignments that keep their distance. What is computed is the target of the group as it was when that began, and it
becomes the target of that epoch even if the group has a newer one by then: so members that come and go without end
cannot keep the others from getting on. The next heartbeat sees that there is no target for the newest epoch.

Target records come before the one that tells their epoch, a few at a time. If the rest is never written, there is no
target for the group's epoch, and its coordinator computes one. Until then a partition may be in the targets of
two members, or of none; nobody gets one that another member still has, whatever a target says.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterator, Sized
from typing import Any, Generic, NamedTuple, TypeVar

from barnabas.common.clock import Turn, TurnLimit
from barnabas.common.cooperative import PIECE, Steps
from barnabas.coordination.shard import CoordinatorRecord
from barnabas.groups.kind import ShardContext
from barnabas.groups.modern import ModernGroup
from barnabas.groups.step import CoordinatorResult

LARGE = 3000
"""Members, topics in their subscriptions and partitions together: a few milliseconds."""

LIMIT = TurnLimit(seconds=0.003)
PART_BYTES = 16 << 10
"""Of target records that are appended and replayed in one turn."""

G = TypeVar("G", bound=ModernGroup[Any, Any])
A = TypeVar("A", bound=Sized)


class Targets(NamedTuple, Generic[G, A]):
    """What a type of group knows about its targets. `compute` takes a group, and nothing of it later on."""

    group_class: type[G]
    compute: Callable[[G], Steps[dict[str, A]]]
    target_record: Callable[[str, str, A], CoordinatorRecord]
    epoch_record: Callable[[str, int, int], CoordinatorRecord]


class _Job(NamedTuple):
    group: ModernGroup[Any, Any]
    parts: Iterator[list[CoordinatorRecord] | None]


class Assigning(Generic[G, A]):
    def __init__(self, context: ShardContext, targets: Targets[G, A]) -> None:
        self._context = context
        self._targets = targets
        self._jobs: dict[str, _Job | None] = {}

    def is_under_way(self, group_id: str) -> bool:
        return group_id in self._jobs

    def start(self, group_id: str) -> None:
        """Begin in a later turn, when what the present step writes is part of the group."""
        if group_id not in self._jobs:
            self._jobs[group_id] = None
            self._context.soon(lambda step: self._begin(group_id, step))

    def _begin(self, group_id: str, step: CoordinatorResult) -> None:
        group = self._context.groups.get(group_id)
        if not isinstance(group, self._targets.group_class) or group.assignment_epoch >= group.epoch:
            del self._jobs[group_id]
            return
        job = _Job(group, self._parts(group, group.epoch))
        self._jobs[group_id] = job
        self._go_on(job, step)

    def _go_on(self, job: _Job, step: CoordinatorResult) -> None:
        group_id = job.group.group_id
        if self._jobs.get(group_id) is not job:
            return  # a part of it could not be written
        is_over = self._context.groups.get(group_id) is not job.group
        try:
            is_over = is_over or self._take_steps(job, step)
        except BaseException:
            del self._jobs[group_id]
            raise
        if is_over:
            del self._jobs[group_id]
        else:
            self._context.soon(lambda later: self._go_on(job, later))
        if step.records:
            step.undo = lambda: self._give_up(group_id)

    def _take_steps(self, job: _Job, step: CoordinatorResult) -> bool:
        """For one turn, which ends with the first part that is to be written; True when there is nothing left."""
        turn = Turn(LIMIT, self._context.clock.monotonic)
        # Sets with thousands of entries are few objects: the collector would wait for more of them, and then look at
        # millions of entries at once.
        gc.collect(0)
        for part in job.parts:
            if part:
                step.records += part
                return False
            if turn.is_over():
                return False
        return True

    def _give_up(self, group_id: str) -> None:
        """The next heartbeat begins again."""
        self._jobs.pop(group_id, None)

    def _parts(self, group: G, epoch: int) -> Generator[list[CoordinatorRecord] | None, None, None]:
        """None after each step of the computation; then records, which are appended before the next step."""
        instances = {member_id: member.instance_id for member_id, member in group.members.items()}
        targets = yield from self._targets.compute(group)
        part: list[CoordinatorRecord] = []
        size = looked_at = 0
        for member_id in list(targets):
            target = targets.pop(member_id)  # to free them at once would take long
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
