"""The window of a share partition: its runs of records, what counts as work in hand, and where it starts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.share.acknowledgements import Stored
from barnabas.share.runs import Run, Runs
from barnabas.share.runs import FINISHED, RecordState


class ShareSettings(NamedTuple):
    """The settings of a share group, as `share.*` names them."""

    max_locks: int = 2000
    delivery_limit: int = 5
    lock_seconds: float = 30.0
    dead_letters: bool = False
    renewable: bool = True


class ShareWindow:
    """The part of a share partition that counts and moves; `SharePartition` says why records change their state."""

    def __init__(self, start_offset: int, stored: Iterable[Stored], settings: ShareSettings) -> None:
        self.settings = settings
        self.start_offset = start_offset
        self.runs = Runs()
        self.open_count = 0
        """Records in the window that are not finished and whose time has come: they may not become too many."""
        self._finished_count = 0
        self._lowest_available: int | None = None
        self.has_archiving = False
        """Some records may be ARCHIVING: on their way to the dead-letter topic."""
        self._restore(stored)

    def _restore(self, stored: Iterable[Stored]) -> None:
        """Batches that are stored; offsets in between were acquired, or never delivered."""
        following = self.start_offset
        for batch in sorted(stored):
            if batch.last < following:
                continue
            first = max(batch.first, following)
            if first > following:
                self._add(Run(following, first - 1, RecordState.AVAILABLE))
            state = RecordState(batch.state)
            self._add(
                Run(first, batch.last, state if state in _KEPT else RecordState.AVAILABLE, batch.deliveries)
            )
            following = batch.last + 1
        self._lowest_available = self.start_offset
        self.has_archiving = True  # perhaps: `archiving` finds out
        self._advance()

    def _add(self, run: Run) -> None:
        self.runs.append(run)
        if run.state in FINISHED:
            self._finished_count += len(run)
        else:
            self.open_count += len(run)

    @property
    def end(self) -> int:
        """The last offset of the window (Kafka's SPEO)."""
        last = self.runs.last
        return last.last if last is not None else self.start_offset - 1

    @property
    def room(self) -> int:
        """How many more records may be given out."""
        return self.settings.max_locks - self.open_count

    # -- finding records ------------------------------------------------------------------------

    def next_offset(self) -> int:
        """The next offset that can be delivered: the first that was released, or the first above the window."""
        if self._lowest_available is not None:
            for run in self.runs.following(self._lowest_available):
                if is_free(run):
                    self._lowest_available = run.first
                    return run.first
            self._lowest_available = None
        return self.end + 1

    @property
    def can_acquire(self) -> bool:
        return self.room > 0 or self.next_offset() <= self.end

    # -- moving its start ---------------------------------------------------------------------------

    def _settled(self, run: Run) -> None:
        """The run has reached its state for good, or is free."""
        if run.state is RecordState.AVAILABLE:
            if self._lowest_available is None or run.first < self._lowest_available:
                self._lowest_available = run.first
        elif run.state in FINISHED:
            self.open_count -= len(run)
            self._finished_count += len(run)
        else:
            self.has_archiving = True

    def _advance(self) -> None:
        """Move the start of the window past what is finished."""
        start = self.start_offset
        for run in self.runs:
            if run.state not in FINISHED or run.change is not None:
                break
            start = run.last + 1
            self._finished_count -= len(run)
        if start > self.start_offset:
            self.runs.drop_before(start)
            self.start_offset = start

    def log_start_moved(self, offset: int) -> None:
        """The start of the log has moved: records below it are finished."""
        if offset <= self.start_offset:
            return
        for run in self.runs.within(self.start_offset, offset):
            if run.change is not None and run.first < offset <= run.last:
                offset = run.first  # never split what is being stored; the rest goes with the next time
        for run in self.runs.drop_before(offset):
            if run.state in FINISHED and run.change is None:
                self._finished_count -= len(run)
            elif not run.due_ms:
                self.open_count -= len(run)
        self.start_offset = max(self.start_offset, offset)
        self._advance()


_KEPT = FINISHED | {RecordState.ARCHIVING}


def is_free(run: Run) -> bool:
    return run.state is RecordState.AVAILABLE and run.change is None and not run.due_ms
