"""Changes of records that are not stored yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from barnabas.common.errors import KafkaError
from barnabas.share.runs import Run
from barnabas.share.states import RecordState

Done = Callable[[KafkaError | None], None]


class Stored(NamedTuple):
    """A batch of `__share_group_state` (Kafka's PersisterStateBatch): offsets in one state."""

    first: int
    last: int
    state: int
    deliveries: int


class Before(NamedTuple):
    """How a run was before a change, to put it back if that cannot be stored."""

    run: Run
    state: RecordState


class Change:
    """One decision. `held` runs do not change until it is stored; then `done` is called."""

    __slots__ = ("batches", "done", "held")

    def __init__(self, done: Done | None = None) -> None:
        self.batches: list[Stored] = []
        self.held: list[Before] = []
        self.done = done

    def add(self, run: Run) -> None:
        self.batches.append(Stored(run.first, run.last, run.state, run.count))

    def hold(self, run: Run, state: RecordState) -> None:
        """The run is in `state` from now on, for all but those who could undo it."""
        self.held.append(Before(run, run.state))
        run.state = state
        run.change = self
        self.add(run)


class Write(NamedTuple):
    """All that is to be stored at once: where the window starts, and what has changed above it."""

    start_offset: int
    finished_count: int
    batches: list[Stored]
    changes: list[Change]


def clipped(changes: Iterable[Change], start: int) -> list[Stored]:
    """The batches of some changes, as far as they are not below the start."""
    return [
        batch._replace(first=max(batch.first, start))
        for change in changes
        for batch in change.batches
        if batch.last >= start
    ]
