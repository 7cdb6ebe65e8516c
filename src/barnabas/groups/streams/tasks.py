"""Tasks of a streams application: one for each partition that a subtopology reads, in one of three roles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple, Protocol


class StreamsTask(NamedTuple):
    subtopology_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology_id}-{self.partition}"


TaskSet = frozenset[StreamsTask]
NO_TASKS: TaskSet = frozenset()


@dataclass(frozen=True, slots=True)
class StreamsTasks:
    """Target or reported tasks of a member: an active task processes, a standby keeps its state up to date, and a
    warm-up task restores the state of a task that moves to its member."""

    active: TaskSet = NO_TASKS
    standby: TaskSet = NO_TASKS
    warmup: TaskSet = NO_TASKS

    def __len__(self) -> int:
        return len(self.active) + len(self.standby) + len(self.warmup)


NOTHING = StreamsTasks()


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """Assigned tasks of a member. An active task has the epoch in which the member got it: a commit
    with an older epoch comes from a previous owner.
    """

    active: Mapping[StreamsTask, int] = field(default_factory=dict)
    standby: TaskSet = NO_TASKS
    warmup: TaskSet = NO_TASKS

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    def contains(self, tasks: StreamsTasks) -> bool:
        return (
            self.active.keys() >= tasks.active
            and self.standby >= tasks.standby
            and self.warmup >= tasks.warmup
        )

    def overlaps(self, tasks: StreamsTasks) -> bool:
        return not (
            self.active.keys().isdisjoint(tasks.active)
            and self.standby.isdisjoint(tasks.standby)
            and self.warmup.isdisjoint(tasks.warmup)
        )


NOTHING_HELD = HeldTasks()


class _TaskIds(Protocol):
    """Task ids as messages and records list them."""

    @property
    def subtopology_id(self) -> str: ...

    @property
    def partitions(self) -> list[int]: ...


def tasks_of(listed: Iterable[_TaskIds]) -> TaskSet:
    return frozenset(StreamsTask(ids.subtopology_id, index) for ids in listed for index in ids.partitions)


def by_subtopology(tasks: Iterable[StreamsTask]) -> list[tuple[str, list[int]]]:
    """Tasks as messages and records list them: sorted subtopologies, and the partitions of each."""
    ordered = groupby(sorted(tasks), key=lambda task: task.subtopology_id)
    return [(subtopology_id, [task.partition for task in group]) for subtopology_id, group in ordered]
