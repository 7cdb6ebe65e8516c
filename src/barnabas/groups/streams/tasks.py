"""Tasks of a streams application: one for each partition that a subtopology reads, in one of three roles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple, Protocol


class Task(NamedTuple):
    subtopology_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology_id}-{self.partition}"


TaskSet = frozenset[Task]
NO_TASKS: TaskSet = frozenset()


@dataclass(frozen=True, slots=True)
class Tasks:
    """What a member shall have, or says that it has: an active task processes, a standby keeps its state warm.

    Warm-ups are in the protocol, but the coordinator of Kafka 4.3 never assigns one; nor do we.
    """

    active: TaskSet = NO_TASKS
    standby: TaskSet = NO_TASKS
    warmup: TaskSet = NO_TASKS

    def __len__(self) -> int:
        return len(self.active) + len(self.standby) + len(self.warmup)


NOTHING = Tasks()


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """What a member has been given. An active task comes with the epoch in which the member got it: a commit
    that names an older one was sent by a member that had the task before.
    """

    active: Mapping[Task, int] = field(default_factory=dict)
    standby: TaskSet = NO_TASKS
    warmup: TaskSet = NO_TASKS

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    def contains(self, tasks: Tasks) -> bool:
        return (
            self.active.keys() >= tasks.active
            and self.standby >= tasks.standby
            and self.warmup >= tasks.warmup
        )

    def overlaps(self, tasks: Tasks) -> bool:
        return not (
            self.active.keys().isdisjoint(tasks.active)
            and self.standby.isdisjoint(tasks.standby)
            and self.warmup.isdisjoint(tasks.warmup)
        )


NOTHING_HELD = HeldTasks()


class _TaskIds(Protocol):
    """What messages and records have in common where they list tasks."""

    @property
    def subtopology_id(self) -> str: ...

    @property
    def partitions(self) -> list[int]: ...


def tasks_of(listed: Iterable[_TaskIds]) -> TaskSet:
    return frozenset(Task(ids.subtopology_id, index) for ids in listed for index in ids.partitions)


def by_subtopology(tasks: Iterable[Task]) -> list[tuple[str, list[int]]]:
    """As messages and records list them: subtopologies in order, and the partitions of each."""
    ordered = groupby(sorted(tasks), key=lambda task: task.subtopology_id)
    return [(subtopology_id, [task.partition for task in group]) for subtopology_id, group in ordered]
