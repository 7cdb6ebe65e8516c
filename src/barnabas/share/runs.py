"""The records in flight of a share partition, as runs of consecutive offsets in the same state (Kafka's
InFlightBatch).

Records are acquired and acknowledged in batches, so a run is usually a producer's batch; it is split only
where its
records are treated differently. Runs are contiguous: every offset between the first and the last belongs to
one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any

# -- The states of a record in a share partition (Kafka's RecordState) ---------------------------------


class RecordState(IntEnum):
    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


class Acknowledgement(IntEnum):
    """Acknowledgement type of a record; a gap is an offset without a record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcquireMode(IntEnum):
    """Strictness of a fetch's record limit (KIP-1206)."""

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


FINISHED = frozenset((RecordState.ACKNOWLEDGED, RecordState.ARCHIVED))
"""Final states: the start of the window may pass such records."""


NO_MEMBER = ""


class InFlightBatch:
    """Offsets `first` to `last`. `change` is set until the decision about them is stored."""

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
        """The number of records first delivered together, regardless of later splits."""

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __repr__(self) -> str:
        pending = " (not stored)" if self.change is not None else ""
        return f"{self.first}-{self.last} {self.state.name} x{self.count} {self.member}{pending}"

    def cut(self, at: int) -> InFlightBatch:
        """Truncate at `at`; return the rest as a new run."""
        rest = InFlightBatch(at, self.last, self.state, self.count)
        rest.member, rest.deadline, rest.due_ms = self.member, self.deadline, self.due_ms
        rest.whole, rest.rejected = self.whole, self.rejected
        self.last = at - 1
        return rest


class Runs:
    """All runs in offset order, with an array of their first offsets for binary search."""

    __slots__ = ("_firsts", "_runs")

    def __init__(self) -> None:
        self._runs: list[InFlightBatch] = []
        self._firsts: list[int] = []

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def last(self) -> InFlightBatch | None:
        return self._runs[-1] if self._runs else None

    def append(self, run: InFlightBatch) -> None:
        self._runs.append(run)
        self._firsts.append(run.first)

    def within(self, first: int, last: int) -> list[InFlightBatch]:
        """The runs that have offsets between `first` and `last`."""
        start = max(bisect_right(self._firsts, first) - 1, 0)
        if start < len(self._runs) and self._runs[start].last < first:
            start += 1
        return self._runs[start : bisect_right(self._firsts, last)]

    def following(self, offset: int) -> Iterator[InFlightBatch]:
        """The runs from the one that holds `offset` on, one by one."""
        for index in range(max(bisect_right(self._firsts, offset) - 1, 0), len(self._runs)):
            yield self._runs[index]

    def split(self, at: int) -> None:
        """Split the run that contains `at`, if any. Runs that are being stored are never split."""
        index = bisect_right(self._firsts, at) - 1
        if index < 0:
            return
        run = self._runs[index]
        if run.first < at <= run.last:
            self._runs.insert(index + 1, run.cut(at))
            self._firsts.insert(index + 1, at)

    def isolate(self, first: int, last: int) -> list[InFlightBatch]:
        """The runs of exactly the offsets `first` to `last`."""
        self.split(first)
        self.split(last + 1)
        return self.within(first, last)

    def drop_before(self, offset: int) -> list[InFlightBatch]:
        """Drop everything below `offset`."""
        self.split(offset)
        count = bisect_left(self._firsts, offset)
        dropped = self._runs[:count]
        del self._runs[:count], self._firsts[:count]
        return dropped

    def merge_finished(self, finished: Iterable[InFlightBatch]) -> None:
        """Join finished neighbours, so that a long, fragmented window stays small."""
        for run in finished:
            index = bisect_left(self._firsts, run.first)
            if index < len(self._runs) and self._runs[index] is run:
                self._join(index)

    def _join(self, index: int) -> None:
        run = self._runs[index]
        if index + 1 < len(self._runs) and _alike(run, self._runs[index + 1]):
            run.last = self._runs[index + 1].last
            del self._runs[index + 1], self._firsts[index + 1]
        if index and _alike(self._runs[index - 1], run):
            self._runs[index - 1].last = run.last
            del self._runs[index], self._firsts[index]


def _alike(one: InFlightBatch, other: InFlightBatch) -> bool:
    return one.state is other.state and one.change is None and other.change is None
