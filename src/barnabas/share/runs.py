"""The records in flight of a share partition, as runs of neighbours in the same state (Kafka's InFlightBatch).

Records come and go in batches, so a run is most often a batch of a producer; it is split only where its
records are treated differently. Runs lie edge to edge: whatever is between the first and the last is part of one.
"""

from __future__ import annotations

from enum import IntEnum

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Any



# -- The states of a record in a share partition (Kafka's RecordState) ---------------------------------

class RecordState(IntEnum):
    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


class Acknowledgement(IntEnum):
    """What a consumer says of a record; a gap is an offset that holds none."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcquireMode(IntEnum):
    """How strictly a fetch keeps to its number of records (KIP-1206)."""

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


FINISHED = frozenset((RecordState.ACKNOWLEDGED, RecordState.ARCHIVED))
"""Nothing is left to do for such records: the start of the window may pass them."""



NO_MEMBER = ""


class Run:
    """Offsets `first` to `last`. `change` is set while what was decided about them is not yet stored."""

    __slots__ = (
        "change",
        "count",
        "deadline",
        "due_ms",
        "first",
        "last",
        "member",
        "rejected",
        "state",
        "whole",
    )

    def __init__(self, first: int, last: int, state: RecordState, count: int = 0) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.count = count
        self.member = NO_MEMBER
        self.deadline = 0.0
        self.due_ms = 0
        self.rejected = False
        self.change: Any = None
        self.whole = last - first + 1
        """How many records were given out together when they were new, however it was split since."""

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __repr__(self) -> str:
        pending = " (not stored)" if self.change is not None else ""
        return f"{self.first}-{self.last} {self.state.name} x{self.count} {self.member}{pending}"

    def cut(self, at: int) -> Run:
        """Keep what lies below `at`; the rest is a run of its own."""
        rest = Run(at, self.last, self.state, self.count)
        rest.member, rest.deadline, rest.due_ms = self.member, self.deadline, self.due_ms
        rest.whole, rest.rejected = self.whole, self.rejected
        self.last = at - 1
        return rest


class Runs:
    """All runs, in order, with their first offsets beside them for a quick search."""

    __slots__ = ("_firsts", "_runs")

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._firsts: list[int] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def last(self) -> Run | None:
        return self._runs[-1] if self._runs else None

    def append(self, run: Run) -> None:
        self._runs.append(run)
        self._firsts.append(run.first)

    def within(self, first: int, last: int) -> list[Run]:
        """The runs that have offsets between `first` and `last`."""
        start = max(bisect_right(self._firsts, first) - 1, 0)
        if start < len(self._runs) and self._runs[start].last < first:
            start += 1
        return self._runs[start : bisect_right(self._firsts, last)]

    def following(self, offset: int) -> Iterator[Run]:
        """The runs from the one that holds `offset` on, one by one."""
        for place in range(max(bisect_right(self._firsts, offset) - 1, 0), len(self._runs)):
            yield self._runs[place]

    def split(self, at: int) -> None:
        """Let a run begin at `at`, if `at` lies inside of one. Runs that are being stored are never split."""
        place = bisect_right(self._firsts, at) - 1
        if place < 0:
            return
        run = self._runs[place]
        if run.first < at <= run.last:
            self._runs.insert(place + 1, run.cut(at))
            self._firsts.insert(place + 1, at)

    def isolate(self, first: int, last: int) -> list[Run]:
        """The runs of exactly the offsets `first` to `last`."""
        self.split(first)
        self.split(last + 1)
        return self.within(first, last)

    def drop_before(self, offset: int) -> list[Run]:
        """Forget everything below `offset`."""
        self.split(offset)
        count = bisect_left(self._firsts, offset)
        dropped = self._runs[:count]
        del self._runs[:count], self._firsts[:count]
        return dropped

    def merge_finished(self, finished: Iterable[Run]) -> None:
        """Join settled neighbours, so that a long window of scattered work stays small."""
        for run in finished:
            place = bisect_left(self._firsts, run.first)
            if place < len(self._runs) and self._runs[place] is run:
                self._join(place)

    def _join(self, place: int) -> None:
        run = self._runs[place]
        if place + 1 < len(self._runs) and _alike(run, self._runs[place + 1]):
            run.last = self._runs[place + 1].last
            del self._runs[place + 1], self._firsts[place + 1]
        if place and _alike(self._runs[place - 1], run):
            self._runs[place - 1].last = run.last
            del self._runs[place], self._firsts[place]


def _alike(one: Run, other: Run) -> bool:
    return one.state is other.state and one.change is None and other.change is None
