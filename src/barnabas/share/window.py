"""The window of a share partition: its runs of records, the number in flight, and its start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.share.acknowledgements import PersisterStateBatch
from barnabas.share.runs import FINISHED, InFlightBatch, RecordState, Runs


class ShareSettings(NamedTuple):
    """The settings of a share group, as `share.*` names them."""

    max_locks: int = 2000
    delivery_limit: int = 5
    lock_seconds: float = 30.0
    dead_letters: bool = False
    renewable: bool = True


class ShareWindow:
    """Counters and bounds of a share partition; `SharePartition` adds the transitions of records."""

    def __init__(
        self, start_offset: int, stored: Iterable[PersisterStateBatch], settings: ShareSettings
    ) -> None:
        self.settings = settings
        self.start_offset = start_offset
        self.runs = Runs()
        self.open_count = 0
        """Records of the window that are neither finished nor delayed; limited by the settings."""
        self._finished_count = 0
        self._lowest_available: int | None = None
        self.has_archiving = False
        """True if some records may be ARCHIVING: being written to the dead-letter topic."""
        self._restore(stored)

    def _restore(self, stored: Iterable[PersisterStateBatch]) -> None:
        """Restore stored batches; offsets in between were acquired, or never delivered."""
        following = self.start_offset
        for batch in sorted(stored):
            if batch.last < following:
                continue
            first = max(batch.first, following)
            if first > following:
                self._add(InFlightBatch(following, first - 1, RecordState.AVAILABLE))
            state = RecordState(batch.state)
            self._add(
                InFlightBatch(
                    first, batch.last, state if state in _KEPT else RecordState.AVAILABLE, batch.deliveries
                )
            )
            following = batch.last + 1
        self._lowest_available = self.start_offset
        self.has_archiving = True  # possibly: `archiving` determines it
        self._advance()

    def _add(self, run: InFlightBatch) -> None:
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
        """The number of records that may still be acquired."""
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

    def _settled(self, run: InFlightBatch) -> None:
        """Account for a run that is finished or available."""
        if run.state is RecordState.AVAILABLE:
            if self._lowest_available is None or run.first < self._lowest_available:
                self._lowest_available = run.first
        elif run.state in FINISHED:
            self.open_count -= len(run)
            self._finished_count += len(run)
        else:
            self.has_archiving = True

    def _advance(self) -> None:
        """Move the start of the window past finished records."""
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
        """Finish records below the new log start offset."""
        if offset <= self.start_offset:
            return
        for run in self.runs.within(self.start_offset, offset):
            if run.change is not None and run.first < offset <= run.last:
                offset = run.first  # never split a run that is being stored; the rest follows later
        for run in self.runs.drop_before(offset):
            if run.state in FINISHED and run.change is None:
                self._finished_count -= len(run)
            elif not run.due_ms:
                self.open_count -= len(run)
        self.start_offset = max(self.start_offset, offset)
        self._advance()


_KEPT = FINISHED | {RecordState.ARCHIVING}


def is_free(run: InFlightBatch) -> bool:
    return run.state is RecordState.AVAILABLE and run.change is None and not run.due_ms
