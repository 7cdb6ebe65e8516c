"""The `sticky` assignor of Kafka 4.3: tasks stay with their member while the load is balanced.

Members are threads; those of one process share its load, and a process never has the same task twice. Active tasks
come first. Each goes to its previous member, or else to a member that had it as a standby, unless that member is
full; the others go to the process with the lowest load per thread, and there to the least loaded thread.
The standbys of stateful tasks follow in the same way; with rack-aware tags, each goes to a process whose values differ
from those of the processes that have the task, as far as there are any. Tasks of the same partition are assigned
together, and the others subtopology by subtopology, so that every member of a new group gets some of each.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from barnabas.common.cooperative import Steps, finish, pieces, sort
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.groups.streams.tasks import NOTHING, StreamsTask, StreamsTasks

logger = rate_limited_logger(__name__)

FEW = 50
"""Tasks assigned in one step."""


@dataclass(frozen=True, slots=True)
class StreamsMemberSpec:
    """A member's process, its previous target, and the values of its rack-aware tags."""

    process_id: str
    previous: StreamsTasks = NOTHING
    tags: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True)
class SubtopologySpec:
    tasks: int
    is_stateful: bool


def assign(
    members: Mapping[str, StreamsMemberSpec],
    subtopologies: Mapping[str, SubtopologySpec],
    standby_replicas: int,
) -> dict[str, StreamsTasks]:
    """Target of each member; empty without members."""
    return finish(assign_steps(members, subtopologies, standby_replicas))


def assign_steps(
    members: Mapping[str, StreamsMemberSpec],
    subtopologies: Mapping[str, SubtopologySpec],
    standby_replicas: int,
) -> Steps[dict[str, StreamsTasks]]:
    if not members:
        return {}
    return (yield from _Assignment(members, subtopologies, standby_replicas).run())


class _Member:
    __slots__ = ("active", "count", "member_id", "process", "standby")

    def __init__(self, member_id: str, process: _Process) -> None:
        self.member_id = member_id
        self.process = process
        self.active: set[StreamsTask] = set()
        self.standby: set[StreamsTask] = set()
        self.count = 0
        """Tasks of both roles."""

    @property
    def load_key(self) -> tuple[float, int, str]:
        """Sort key: the smallest gets the next task. The id makes the result deterministic."""
        return self.process.load, self.count, self.member_id


class _Process:
    __slots__ = ("_by_count", "members", "process_id", "tags", "tasks")

    def __init__(self, process_id: str, tags: tuple[str | None, ...] = ()) -> None:
        self.process_id = process_id
        self.tags = tags
        self.members: list[_Member] = []
        self.tasks: set[StreamsTask] = set()
        self._by_count: list[tuple[int, str, _Member]] = []

    @property
    def load(self) -> float:
        return len(self.tasks) / len(self.members)

    def least_loaded(self) -> _Member:
        """Counts only grow: an entry with an outdated count is pushed back with the current one."""
        heap = self._by_count
        if not heap:
            heap += [(member.count, member.member_id, member) for member in self.members]
            heapq.heapify(heap)
        while heap[0][0] != heap[0][2].count:
            member = heap[0][2]
            heapq.heapreplace(heap, (member.count, member.member_id, member))
        return heap[0][2]


class _Share:
    """Maximum number of tasks of a member: the ceiling of the mean over members that are not full."""

    __slots__ = ("_members", "_tasks", "most")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.most = -(-tasks // members)

    def reached(self, count: int) -> None:
        if count != self.most:
            return
        self._tasks -= count
        self._members -= 1
        self.most = -(-self._tasks // self._members) if self._members else 0


class _Assignment:
    def __init__(
        self,
        members: Mapping[str, StreamsMemberSpec],
        subtopologies: Mapping[str, SubtopologySpec],
        standby_replicas: int,
    ) -> None:
        self._specs = members
        self._subtopologies = subtopologies
        self._replicas = standby_replicas
        self._processes: dict[str, _Process] = {}
        self._members: dict[str, _Member] = {}
        self._had_active: dict[StreamsTask, _Member] = {}
        self._had_standby: dict[StreamsTask, list[_Member]] = defaultdict(list)
        active = sum(one.tasks for one in subtopologies.values())
        standby = sum(one.tasks * standby_replicas for one in subtopologies.values() if one.is_stateful)
        self._active_share = _Share(active, len(members))
        self._share = _Share(active + standby, len(members))

    def _add(self, member_id: str, spec: StreamsMemberSpec) -> None:
        process = self._processes.setdefault(spec.process_id, _Process(spec.process_id, spec.tags))
        member = _Member(member_id, process)
        process.members.append(member)
        self._members[member_id] = member
        for task in spec.previous.active:
            self._had_active[task] = member
        for task in spec.previous.standby:
            self._had_standby[task].append(member)

    def run(self) -> Steps[dict[str, StreamsTasks]]:
        for member_id in (yield from sort(self._specs)):
            self._add(member_id, self._specs[member_id])
            yield
        yield from self._assign_active((yield from self._tasks(lambda one: True)))
        if self._replicas:
            stateful = yield from self._tasks(lambda one: one.is_stateful)
            has_tags = any(process.tags for process in self._processes.values())
            yield from self._assign_standby_by_tags(stateful) if has_tags else self._assign_standby(stateful)
        targets = {}
        for member_id, member in self._members.items():
            targets[member_id] = StreamsTasks(frozenset(member.active), frozenset(member.standby))
            yield
        return targets

    def _tasks(self, wanted: Callable[[SubtopologySpec], bool]) -> Steps[list[StreamsTask]]:
        """All tasks of some subtopologies, grouped by partition."""
        keys = yield from sort(
            (index, subtopology_id)
            for subtopology_id, one in self._subtopologies.items()
            if wanted(one)
            for index in range(one.tasks)
        )
        tasks: list[StreamsTask] = []
        for piece in pieces(keys):
            tasks += [StreamsTask(subtopology_id, index) for index, subtopology_id in piece]
            yield
        return tasks

    # -- active tasks -------------------------------------------------------------------------------

    def _assign_active(self, tasks: list[StreamsTask]) -> Steps[None]:
        rest = yield from _all_but(tasks, lambda task: self._keep_active(task, self._had_active.get(task)))
        rest = yield from _all_but(rest, lambda task: self._keep_active(task, self._had_it_as_standby(task)))
        heap = self._by_load()
        for piece in pieces((yield from sort(rest)), FEW):
            for task in piece:
                _, _, process = heapq.heappop(heap)
                self._give_active(process.least_loaded(), task)
                heapq.heappush(heap, (process.load, process.process_id, process))
            yield

    def _had_it_as_standby(self, task: StreamsTask) -> _Member | None:
        return min(self._had_standby.get(task, ()), key=lambda member: member.load_key, default=None)

    def _keep_active(self, task: StreamsTask, member: _Member | None) -> bool:
        if member is None or member.count >= self._active_share.most:
            return False
        self._give_active(member, task)
        return True

    def _give_active(self, member: _Member, task: StreamsTask) -> None:
        member.active.add(task)
        member.count += 1
        member.process.tasks.add(task)
        self._active_share.reached(member.count)
        self._share.reached(member.count)

    # -- standbys -----------------------------------------------------------------------------------

    def _assign_standby(self, tasks: list[StreamsTask]) -> Steps[None]:
        """In reverse order, so that standbys do not gather where the first active tasks went."""
        rest: list[tuple[StreamsTask, int]] = []
        for piece in pieces(reversed(tasks), FEW):
            rest += [(task, self._missing_standbys(task)) for task in piece]
            yield
        heap = self._by_load()
        for some in pieces(reversed((yield from sort(rest))), FEW):
            for task, left in some:
                self._spread(task, left, heap)
            yield

    def _missing_standbys(self, task: StreamsTask) -> int:
        """Assign the tasks that did not stay with a previous member."""
        left = self._replicas
        while left and self._keep_standby(task):
            left -= 1
        return left

    def _keep_standby(self, task: StreamsTask) -> bool:
        """A member that had the task in any role has its state."""
        before = [self._had_active[task]] if task in self._had_active else []
        for had in (before, self._had_standby.get(task, ())):
            member = min(self._without(task, had), key=lambda one: one.load_key, default=None)
            if member is not None and member.count < self._share.most:
                self._give_standby(member, task)
                return True
        return False

    def _without(self, task: StreamsTask, members: Iterable[_Member]) -> Iterable[_Member]:
        return (member for member in members if task not in member.process.tasks)

    def _spread(self, task: StreamsTask, replicas: int, heap: list[tuple[float, str, _Process]]) -> None:
        """Assign to the least loaded processes that do not have the task; there may be too few of them."""
        passed: list[_Process] = []
        while replicas and heap:
            process = heapq.heappop(heap)[2]
            passed.append(process)
            if task not in process.tasks:
                self._give_standby(process.least_loaded(), task)
                replicas -= 1
        for process in passed:
            heapq.heappush(heap, (process.load, process.process_id, process))
        if replicas:
            logger.debug("%d standbys of task %s find no process; more instances are needed", replicas, task)

    def _assign_standby_by_tags(self, tasks: list[StreamsTask]) -> Steps[None]:
        for task in reversed(tasks):
            has_task = [process for process in self._processes.values() if task in process.tasks]
            for _ in range(self._replicas):
                process = min(
                    (one for one in self._processes.values() if task not in one.tasks),
                    key=lambda one: self._rank_by_tags(one, task, has_task),
                    default=None,
                )
                if process is None:
                    break
                self._give_standby(self._previous_in(process, task) or process.least_loaded(), task)
                has_task.append(process)
            yield

    def _rank_by_tags(
        self, process: _Process, task: StreamsTask, has_task: list[_Process]
    ) -> tuple[int, bool, float, str]:
        new_values = sum(
            all(value != one.tags[index] for one in has_task) for index, value in enumerate(process.tags)
        )
        return -new_values, self._previous_in(process, task) is None, process.load, process.process_id

    def _previous_in(self, process: _Process, task: StreamsTask) -> _Member | None:
        """A member of the process that has state of the task, and room."""
        before = (self._had_active.get(task), *self._had_standby.get(task, ()))
        return next(
            (one for one in before if one and one.process is process and one.count < self._share.most), None
        )

    def _give_standby(self, member: _Member, task: StreamsTask) -> None:
        member.standby.add(task)
        member.count += 1
        member.process.tasks.add(task)
        self._share.reached(member.count)

    def _by_load(self) -> list[tuple[float, str, _Process]]:
        heap = [(process.load, process.process_id, process) for process in self._processes.values()]
        heapq.heapify(heap)
        return heap


def _all_but(tasks: list[StreamsTask], is_kept: Callable[[StreamsTask], bool]) -> Steps[list[StreamsTask]]:
    """Tasks that were not kept."""
    rest: list[StreamsTask] = []
    for piece in pieces(tasks, FEW):
        rest += [task for task in piece if not is_kept(task)]
        yield
    return rest
