"""The offsets of a log: what each of them means, and who moves it. Only the methods of `Offsets` do.

In the order in which they stand in a log:

- *log start*: the first offset that may be read. Retention and DeleteRecords move it up.
- *local start*: the first offset that is read from this disk. What lies between log start and local start is in remote
  segments only. Local retention moves it up, and so does the log start, which is never above it.
- *tiered end* (T): everything below is in remote segments, if it is not below the log start. Only copying moves it up;
  a truncation moves it down. -1 (`NOTHING_TIERED`) in a log without a remote part: then log start and local start are
  equal and move together.
- *recovery point*, also *flushed offset*: everything below is known to be on the disk (fsynced). Only a completed
  flush moves it up; a truncation moves it down. Recovery believes what is below it and checks the rest.
- *last stable offset* (LSO): no transaction below it is undecided. Readers of committed data stop here. It follows from
  the high watermark and the open transactions (`Log.last_stable_offset`).
- *high watermark* (HW): everything below is on all in-sync replicas. Replication moves it; consumers stop here.
- *written*: everything below has been handed to the operating system. Nothing above is read, replicated
  or acknowledged.
- *log end* (LEO): the offset that the next record will get. Appends move it. It is above *written* only while
  appends are pending (log/pending.py).

    log start <= LSO <= high watermark <= written <= log end, and recovery point <= written
    log start <= local start, and local start = log start or local start <= tiered end <= high watermark of the leader
"""

from __future__ import annotations

from typing import Final

NOTHING_TIERED: Final = -1


class Offsets:
    """Read them as attributes; move them by the methods. All belong to the thread of the log's broker."""

    __slots__ = ("end", "high_watermark", "local_start", "recovery_point", "start", "tiered_end", "written")

    def __init__(
        self,
        start: int,
        end: int,
        recovery_point: int,
        local_start: int | None = None,
        tiered_end: int = NOTHING_TIERED,
    ) -> None:
        self.start = start
        self.local_start = start if local_start is None else local_start
        self.tiered_end = tiered_end
        self.recovery_point = recovery_point
        self.high_watermark = self.local_start
        self.written = end
        self.end = end

    # -- appends: the log ---------------------------------------------------------------------------

    def append(self, end: int) -> None:
        """A batch was written: the log ends at `end`."""
        self.end = self.written = end

    def reserve(self, end: int) -> None:
        """A batch has its offsets, and waits to be written."""
        self.end = end

    def note_written(self, offset: int) -> None:
        """Everything below `offset`, of what waited, is written."""
        self.written = offset

    def undo_appends(self) -> None:
        """What is not written will not be: its offsets are given again."""
        self.end = self.written

    # -- commits: replication -----------------------------------------------------------------------

    def advance_high_watermark(self, offset: int) -> bool:
        """The in-sync replicas have everything below `offset`; did it move? A smaller offset is old news, and what is
        not written here is not committed."""
        if offset > self.written:
            offset = self.written
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    def commit_written(self) -> int:
        """No other replica is in sync: all that is written is committed."""
        written = self.high_watermark = self.written
        return written

    # -- retention, DeleteRecords, and a leader whose log starts later --------------------------------

    def advance_start(self, offset: int) -> bool:
        """Nothing below `offset` is read any more; did it move?"""
        if offset <= self.start:
            return False
        self.start = offset
        if offset > self.local_start:
            self.local_start = offset
        return True

    # -- tiers: copying, local retention, and the end of tiering ---------------------------------------

    def advance_tiered_end(self, offset: int) -> bool:
        """Everything below `offset` is in remote segments; did it move? A smaller offset is old news."""
        if offset <= self.tiered_end:
            return False
        self.tiered_end = offset
        return True

    def lower_tiered_end(self, offset: int) -> None:
        """Less is in remote segments than was thought: some were lost. What is on this disk is copied again."""
        if self.local_start <= offset < self.tiered_end:
            self.tiered_end = offset

    def advance_local_start(self, offset: int) -> bool:
        """What lies below `offset` is read from remote segments from now on; did it move?"""
        if offset <= self.local_start:
            return False
        assert offset <= self.tiered_end, f"{offset} is not copied: the tiered end is {self.tiered_end}"
        self.local_start = offset
        return True

    def end_tiering(self) -> None:
        """There is no remote part any more: the log starts on this disk."""
        self.start = self.local_start
        self.tiered_end = NOTHING_TIERED

    # -- flushes ------------------------------------------------------------------------------------

    def advance_recovery_point(self, offset: int) -> None:
        """A flush of everything below `offset` has completed."""
        if offset > self.recovery_point:
            self.recovery_point = offset

    def lower_recovery_point(self, offset: int) -> None:
        """What lies above `offset` is going to be cut; the next checkpoint must not promise it."""
        if offset < self.recovery_point:
            self.recovery_point = offset

    def use_recovery_point(self, offset: int) -> None:
        """The log goes on with other files, of which everything below `offset` is on their disk."""
        self.recovery_point = offset

    # -- truncation: followers, and recovery from a failed append --------------------------------------

    def begin_truncation(self, end: int) -> None:
        """The log is going to be cut to `end`: what is checkpointed before must not speak of more."""
        self.lower_recovery_point(end)
        self.start = min(self.start, end)
        self.local_start = min(self.local_start, end)
        self.tiered_end = min(self.tiered_end, end)  # what is written there now was never copied

    def truncate(self, end: int) -> None:
        """The log was cut and ends at `end`."""
        self.end = self.written = end
        self.high_watermark = max(min(self.high_watermark, end), self.start)

    def restart(self, offset: int, start: int | None = None, tiered_end: int = NOTHING_TIERED) -> None:
        """Everything was removed; the log goes on, empty, at `offset`. What lies between `start` and it is remote."""
        self.start = offset if start is None else start
        self.tiered_end = tiered_end
        self.local_start = self.high_watermark = self.end = self.written = offset
