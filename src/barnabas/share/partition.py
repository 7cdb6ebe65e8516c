"""A share partition: the progress of one share group in one partition.

Theory of operation. The *window* begins at the start offset (Kafka's SPSO): everything below is finished. It
ends
at `end` (SPEO): nothing above was ever delivered. In between are runs of records (`runs`, Kafka's
InFlightBatch), each
in a state (`RecordState`). A member acquires records for the time of a lock; it acknowledges them, or the
lock expires.

    log:    ... finished | 40-49 ACQUIRED | 50-54 ACKNOWLEDGED | 55-59 AVAILABLE | not yet delivered ...
                         ^ start_offset                                        ^ end

Memory is ahead of the stored state in two ways only. The member that holds a record is never stored: after a
crash its
lock counts as expired. And an acknowledgement takes effect immediately, but the response is sent only when it
is
stored; if the write fails, it is reverted (`ShareStateChange`).

One write is in flight at a time. Changes made meanwhile go with the next one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.share.acknowledgements import (
    AcknowledgedRange,
    Done,
    PersisterStateBatch,
    ShareStateChange,
    ShareStateWrite,
    clipped,
)
from barnabas.share.runs import FINISHED, NO_MEMBER, Acknowledgement, InFlightBatch, RecordState
from barnabas.share.window import ShareSettings, ShareWindow, is_free

STALE_LOCKS = 1000  # locks released before they expired, beyond which the heap is rebuilt


class SharePartition(ShareWindow):
    def __init__(
        self, start_offset: int, stored: Iterable[PersisterStateBatch], settings: ShareSettings
    ) -> None:
        super().__init__(start_offset, stored, settings)
        self._locks: list[tuple[float, int, int]] = []
        self._due: list[tuple[int, int]] = []
        self._unwritten: list[ShareStateChange] = []
        self._writing = False

    # -- locks --------------------------------------------------------------------------------------

    def lock(self, run: InFlightBatch, member: str, now: float) -> None:
        """Lock a free run for a member."""
        run.state = RecordState.ACQUIRED
        run.count += 1
        run.member = member
        self._set_deadline(run, now)

    def add_locked(self, run: InFlightBatch, member: str, now: float) -> None:
        self._add(run)
        self.lock(run, member, now)

    def add_waiting(self, run: InFlightBatch, due_ms: int) -> None:
        """Add delayed records above the window; they do not count as in flight."""
        run.due_ms = due_ms
        self.runs.append(run)
        heapq.heappush(self._due, (due_ms, run.first))

    def add_skipped(self, first: int, last: int) -> None:
        """Add offsets above the window that hold no record for this group."""
        self._add(InFlightBatch(first, last, RecordState.ARCHIVED))

    def skip(self, run: InFlightBatch) -> None:
        """Finish records to be redelivered that are no longer in the log."""
        run.state = RecordState.ARCHIVED
        self._settled(run)
        self._advance()

    def _set_deadline(self, run: InFlightBatch, now: float) -> None:
        run.deadline = now + self.settings.lock_seconds
        heapq.heappush(self._locks, (run.deadline, run.first, run.last))
        if len(self._locks) > 2 * len(self.runs) + STALE_LOCKS:
            self._locks = [
                (run.deadline, run.first, run.last)
                for run in self.runs
                if run.state is RecordState.ACQUIRED or run.change is not None
            ]
            heapq.heapify(self._locks)

    @property
    def next_deadline(self) -> float | None:
        """The time to call `expire`; if that lock was released early, the call finds nothing."""
        return self._locks[0][0] if self._locks else None

    def expire(self, now: float) -> bool:
        """Release records whose lock has expired; return True if there were any."""
        change = ShareStateChange()
        while self._locks and self._locks[0][0] <= now:
            _, first, last = heapq.heappop(self._locks)
            for run in self.runs.within(first, last):
                if run.state is RecordState.ACQUIRED and run.deadline <= now:
                    self._release(run, change)
        return self._keep(change)

    def release(self, member: str) -> bool:
        """Release the records of a member that has left."""
        change = ShareStateChange()
        for run in list(self.runs):
            if run.state is RecordState.ACQUIRED and run.member == member:
                self._release(run, change)
        return self._keep(change)

    def give_back(self, member: str, first: int, last: int) -> None:
        """Release records that a member acquired but was not sent.

        Locks are not stored, so neither is this.
        """
        for run in self.runs.isolate(first, last):
            if run.state is RecordState.ACQUIRED and run.member == member and run.change is None:
                run.state, run.member = RecordState.AVAILABLE, NO_MEMBER
                run.count -= 1
                self._settled(run)

    def _keep(self, change: ShareStateChange) -> bool:
        if change.batches:
            self._unwritten.append(change)
            self._advance()
        return bool(change.batches)

    def _release(self, run: InFlightBatch, change: ShareStateChange) -> None:
        run.state = self._outcome(run, Acknowledgement.RELEASE)
        run.member = NO_MEMBER
        change.add(run)
        self._settled(run)

    def _outcome(self, run: InFlightBatch, acknowledgement: Acknowledgement) -> RecordState:
        if acknowledgement is Acknowledgement.ACCEPT:
            return RecordState.ACKNOWLEDGED
        if acknowledgement is Acknowledgement.RELEASE and run.count < self.settings.delivery_limit:
            return RecordState.AVAILABLE
        if acknowledgement is not Acknowledgement.GAP and self.settings.dead_letters:
            return RecordState.ARCHIVING
        return RecordState.ARCHIVED

    # -- delayed delivery --------------------------------------------------------------------

    def wait(self, first: int, last: int, due_ms: int) -> None:
        """Delay records of the window that were never delivered."""
        for run in self.runs.isolate(max(first, self.start_offset), min(last, self.end)):
            if is_free(run) and not run.count:
                run.due_ms = due_ms
                self.open_count -= len(run)
                heapq.heappush(self._due, (due_ms, run.first))

    @property
    def next_due_ms(self) -> int | None:
        """The due time of the next delayed record."""
        return self._due[0][0] if self._due else None

    def release_due(self, now_ms: int) -> bool:
        """Make delayed records that are due available; return True if there were any."""
        found = False
        while self._due and self._due[0][0] <= now_ms:
            _, first = heapq.heappop(self._due)
            for run in self.runs.within(first, first):
                if run.due_ms:
                    run.due_ms = 0
                    self.open_count += len(run)
                    self._settled(run)
                    found = True
        return found

    # -- acknowledgements -------------------------------------------------------------------------

    def acknowledge(self, member: str, ranges: Iterable[AcknowledgedRange], now: float, done: Done) -> None:
        """Acknowledge records that a member holds; KafkaError, without any change, if it does not hold them.

        `done` is called when the change is stored, or with the error.
        """
        known = [
            AcknowledgedRange(max(first, self.start_offset), last, acknowledgement)
            for first, last, acknowledgement in ranges
        ]
        acknowledged = [
            each for each in known if each.first <= each.last
        ]  # records below are already finished
        for each in acknowledged:
            self._check_held(member, each)
        change = ShareStateChange(done)
        for first, last, acknowledgement in acknowledged:
            for run in self.runs.isolate(first, last):
                if acknowledgement is Acknowledgement.RENEW:
                    self._set_deadline(run, now)
                else:
                    run.rejected = acknowledgement is Acknowledgement.REJECT
                    change.hold(run, self._outcome(run, acknowledgement))
        if change.held:
            self._unwritten.append(change)
        else:
            done(None)

    def _check_held(self, member: str, acknowledged: AcknowledgedRange) -> None:
        if acknowledged.last > self.end:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "The last offset in request is past acquired records."
            )
        if acknowledged.said is Acknowledgement.RENEW and not self.settings.renewable:
            raise KafkaError(
                ErrorCode.INVALID_RECORD_STATE, "Renewing acquisition locks is not enabled for the group."
            )
        for run in self.runs.within(acknowledged.first, acknowledged.last):
            if run.state is not RecordState.ACQUIRED or run.change is not None:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD_STATE,
                    f"The records {run.first} to {run.last} are not acquired.",
                )
            if run.member != member:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD_STATE,
                    f"Another member holds the records {run.first} to {run.last}.",
                )

    # -- storing ------------------------------------------------------------------------------------

    @property
    def is_stored(self) -> bool:
        return not self._writing and not self._unwritten

    def store_start(self) -> None:
        """Store the start of the window even if no record changes."""
        self._unwritten.append(ShareStateChange())

    def take_write(self) -> ShareStateWrite | None:
        """The next write; None while a write is in flight, or if there is nothing to store."""
        if self._writing or not self._unwritten:
            return None
        changes, self._unwritten = self._unwritten, []
        self._writing = True
        start, finished = self.start_offset, self._finished_count
        for run in self.runs:
            if run.state not in FINISHED or (run.change is not None and run.change not in changes):
                break
            start = run.last + 1
            if run.change is None:
                finished -= len(run)
        for change in changes:
            finished += sum(
                len(run) for run, _ in change.held if run.first >= start and run.state in FINISHED
            )
        return ShareStateWrite(start, finished, clipped(changes, start), changes)

    def written(self, write: ShareStateWrite, error: KafkaError | None) -> None:
        """Complete a write: its changes become final, or are reverted if possible."""
        self._writing = False
        for change in write.changes:
            for run, before in change.held:
                if run.change is change:
                    run.change = None
                    if error is None:
                        self._confirm(run)
                    else:
                        self._undo(run, before)
        if error is None:
            self.runs.merge_finished(
                run for change in write.changes for run, _ in change.held if run.state in FINISHED
            )
            self._advance()
        for change in write.changes:
            if change.done is not None:
                change.done(error)

    def give_up(self, error: KafkaError) -> None:
        """Fail all acknowledgements that wait for a write: nothing more will be stored."""
        waiting, self._unwritten = self._unwritten, []
        for change in waiting:
            if change.done is not None:
                change.done(error)

    def _confirm(self, run: InFlightBatch) -> None:
        if run.first < self.start_offset:
            return  # below the log start offset
        run.member = NO_MEMBER
        self._settled(run)

    def _undo(self, run: InFlightBatch, state: RecordState) -> None:
        run.state = state
        self.has_archiving = self.has_archiving or state is RecordState.ARCHIVING
        if state is RecordState.ACQUIRED:
            heapq.heappush(self._locks, (run.deadline, run.first, run.last))

    # -- dead letters -------------------------------------------------------------------------------

    def archiving(self) -> list[InFlightBatch]:
        """Records that are being written to the dead-letter topic."""
        found = [run for run in self.runs if run.state is RecordState.ARCHIVING and run.change is None]
        self.has_archiving = bool(found)
        return found

    def archive(self, first: int, last: int, done: Done) -> bool:
        """Archive records whose dead letters are written;

        `done` when that is stored. Return True if there are any.
        """
        change = ShareStateChange(done)
        for run in self.runs.isolate(max(first, self.start_offset), last):
            if run.state is RecordState.ARCHIVING and run.change is None:
                change.hold(run, RecordState.ARCHIVED)
        if change.held:
            self._unwritten.append(change)
        return bool(change.held)
