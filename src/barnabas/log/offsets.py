"""The offsets of a log: their meaning, and the operation that moves each. Only the methods of `Offsets` change them.

In ascending order:

- *log start*: the first offset that may be read. Retention and DeleteRecords raise it.
- *local start*: the first offset that is read from the local disk. Offsets between log start and local start are only
  in remote segments. Local retention raises it, and so does the log start, which is never above it.
- *tiered end* (T): everything between the log start and T is in remote segments. Only copying raises it;
  truncation lowers it. -1 (`NOTHING_TIERED`) in a log without a remote part, in which log start and local start are
  equal and move together.
- *recovery point*, also *flushed offset*: everything below is fsynced. Only a completed flush raises it; truncation
  lowers it. Recovery trusts everything below it and checks the rest.
- *last stable offset* (LSO): all transactions below it are decided. read_committed consumers stop here. It is derived
  from the high watermark and the open transactions (`Log.last_stable_offset`).
- *high watermark* (HW): everything below is on all in-sync replicas. Replication moves it; consumers stop here.
- *written*: everything below was passed to the operating system. Nothing above is read, replicated or acknowledged.
- *log end* (LEO): the offset of the next record. Appends raise it. It is above *written* only while appends are
  pending (log/pending.py).

    log start <= LSO <= high watermark <= written <= log end, and recovery point <= written
    log start <= local start, and local start = log start or local start <= tiered end <= high watermark of the leader
"""

from __future__ import annotations

from typing import Final

NOTHING_TIERED: Final = -1


class Offsets:
    """Read the offsets as attributes; move them with the methods, on the thread of the broker's event loop.

    The append of a leader (`Log.write`, `RollingLog.commit_written`) sets them itself: it saves two calls per batch.
    """

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

    # -- appends ------------------------------------------------------------------------------------

    def append(self, end: int) -> None:
        """Move the log end after a batch was written."""
        self.end = self.written = end

    def reserve(self, end: int) -> None:
        """Move the log end for a batch that is pending."""
        self.end = end

    def note_written(self, offset: int) -> None:
        """Record that pending batches below `offset` are written."""
        self.written = offset

    def undo_appends(self) -> None:
        """Drop the pending batches; their offsets will be reused."""
        self.end = self.written

    # -- replication --------------------------------------------------------------------------------

    def advance_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark, at most to *written*; True if it moved. A lower offset is ignored."""
        if offset > self.written:
            offset = self.written
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    # -- retention, DeleteRecords, and the log start of the leader ------------------------------------

    def advance_start(self, offset: int) -> bool:
        """Raise the log start; True if it moved."""
        if offset <= self.start:
            return False
        self.start = offset
        if offset > self.local_start:
            self.local_start = offset
        return True

    # -- tiered storage: copying, local retention, and the end of tiering ------------------------------

    def advance_tiered_end(self, offset: int) -> bool:
        """Raise the tiered end; True if it moved. A lower offset is ignored."""
        if offset <= self.tiered_end:
            return False
        self.tiered_end = offset
        return True

    def lower_tiered_end(self, offset: int) -> None:
        """Lower the tiered end after remote segments were lost; local segments above it are copied again."""
        if self.local_start <= offset < self.tiered_end:
            self.tiered_end = offset

    def advance_local_start(self, offset: int) -> bool:
        """Raise the local start; True if it moved. Offsets below are read from remote segments."""
        if offset <= self.local_start:
            return False
        assert offset <= self.tiered_end, f"local start {offset} above the tiered end {self.tiered_end}"
        self.local_start = offset
        return True

    def end_tiering(self) -> None:
        """Drop the remote part: the log start becomes the local start."""
        self.start = self.local_start
        self.tiered_end = NOTHING_TIERED

    # -- flushes ------------------------------------------------------------------------------------

    def advance_recovery_point(self, offset: int) -> None:
        """Raise the recovery point after a completed flush."""
        if offset > self.recovery_point:
            self.recovery_point = offset

    def lower_recovery_point(self, offset: int) -> None:
        """Lower the recovery point before a truncation, so that no checkpoint has a higher one."""
        if offset < self.recovery_point:
            self.recovery_point = offset

    def use_recovery_point(self, offset: int) -> None:
        """Set the recovery point after the log has switched to other files."""
        self.recovery_point = offset

    # -- truncation: followers, and recovery from a failed append --------------------------------------

    def begin_truncation(self, end: int) -> None:
        """Lower the offsets that are checkpointed before the log is truncated to `end`."""
        self.lower_recovery_point(end)
        self.start = min(self.start, end)
        self.local_start = min(self.local_start, end)
        self.tiered_end = min(self.tiered_end, end)  # offsets above will be reused for other records

    def truncate(self, end: int) -> None:
        """Move log end and high watermark after the log was truncated to `end`."""
        self.end = self.written = end
        self.high_watermark = max(min(self.high_watermark, end), self.start)

    def restart(self, offset: int, start: int | None = None, tiered_end: int = NOTHING_TIERED) -> None:
        """Reset to an empty log at `offset`; [`start`, `offset`) is remote."""
        self.start = offset if start is None else start
        self.tiered_end = tiered_end
        self.local_start = self.high_watermark = self.end = self.written = offset
