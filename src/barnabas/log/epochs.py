"""Start offsets of leader epochs (KIP-101), stored in the file `leader-epoch-checkpoint`.

A returning follower asks the leader for the end offset of the follower's last epoch and truncates its log there,
which removes the records that the leader does not have.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

UNDEFINED = -1


class LeaderEpochs:
    """Entries (epoch, start offset), both ascending. `dirty` if they differ from the file."""

    __slots__ = ("_entries", "_epochs", "_starts", "_unsaved_start", "are_of_source", "dirty", "latest")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self._entries: tuple[tuple[int, int], ...] | None = ()
        self.latest = UNDEFINED
        self.dirty = False
        self.are_of_source = False
        """True for a mirror: its leaders start no epochs, so a replica may have a later epoch than the leader."""
        self._unsaved_start = UNDEFINED
        for epoch, start in entries:
            self.assign(epoch, start)
        self.dirty = False

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """All entries, cached until they change."""
        if self._entries is None:
            self._entries = tuple(zip(self._epochs, self._starts, strict=True))
        return self._entries

    def assign(self, epoch: int, start_offset: int) -> None:
        """Add an epoch that starts at `start_offset`, unless it is known or older than the latest.

        If a newer epoch is recorded at the same offset, it left no batch, and its entry is removed.
        """
        if epoch <= self.latest:
            if epoch < self.latest and start_offset in self._starts:
                self._drop_empty(epoch, start_offset)
            return
        # An epoch that started at this offset or later has left no batch.
        while self._starts and self._starts[-1] >= start_offset:
            self._drop_last()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self._entries = None
        self.latest = epoch
        if not self.dirty or start_offset < self._unsaved_start:
            self._unsaved_start = start_offset
        self.dirty = True

    def _drop_empty(self, epoch: int, offset: int) -> None:
        kept = [entry for entry in self.entries if entry[0] <= epoch or entry[1] != offset]
        if len(kept) == len(self._epochs):
            return
        self._epochs = [known for known, _ in kept]
        self._starts = [start for _, start in kept]
        self._entries = None
        self.latest = self._epochs[-1] if self._epochs else UNDEFINED
        self.dirty = True

    def _drop_last(self) -> None:
        self._epochs.pop()
        self._starts.pop()
        self._entries = None

    def is_worth_saving(self, log_end: int) -> bool:
        """True if an entry with batches has changed. An epoch without batches is dropped at the next start anyway."""
        return self.dirty and self._unsaved_start < log_end

    def at(self, offset: int) -> int:
        """Epoch of the batch at `offset`."""
        entry = bisect_right(self._starts, offset) - 1
        return self._epochs[entry] if entry >= 0 else UNDEFINED

    def end_offset(self, epoch: int, log_end: int) -> tuple[int, int]:
        """(largest epoch <= `epoch`, its end offset), as OffsetForLeaderEpoch returns them."""
        if epoch == UNDEFINED or (not self._epochs and not self.are_of_source):
            return UNDEFINED, UNDEFINED
        if epoch == self.latest:
            return epoch, log_end
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return (max(self.latest, 0), log_end) if self.are_of_source else (UNDEFINED, UNDEFINED)
        return self._epochs[higher - 1] if higher else epoch, self._starts[higher]

    def truncate_end(self, offset: int) -> None:
        """Remove the epochs that start at `offset`, the new log end, or later."""
        while self._starts and self._starts[-1] >= offset:
            self._drop_last()
            self._changed()
        self.latest = self._epochs[-1] if self._epochs else UNDEFINED

    def truncate_start(self, offset: int) -> None:
        """Remove the epochs below `offset`, the new log start; the one at `offset` now starts there."""
        keep = bisect_right(self._starts, offset) - 1
        if keep > 0 or (keep == 0 and self._starts[0] < offset):
            del self._epochs[:keep], self._starts[:keep]
            self._starts[0] = offset
            self._entries = None
            self._changed()

    def replace(self, entries: Iterable[tuple[int, int]]) -> None:
        """Replace all entries."""
        self.clear()
        for epoch, start in entries:
            self.assign(epoch, start)
        self._changed()

    def clear(self) -> None:
        self._epochs.clear()
        self._starts.clear()
        self._entries = None
        self.latest = UNDEFINED
        self._changed()

    def has_no_file(self) -> None:
        """Make the next flush write the file: the log has moved to another folder."""
        self._changed()

    def _changed(self) -> None:
        self.dirty = True
        self._unsaved_start = UNDEFINED
