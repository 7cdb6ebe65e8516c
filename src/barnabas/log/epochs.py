"""Which leader epoch started at which offset (KIP-101), and the file `leader-epoch-checkpoint`.

A follower that comes back asks the leader where its own last epoch ended, and cuts what lies beyond: that is
how logs that diverged become equal again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

UNDEFINED = -1


class LeaderEpochs:
    """Entries (epoch, first offset), both ascending. `dirty` until the file has been written."""

    __slots__ = ("_entries", "_epochs", "_starts", "_unsaved_start", "are_of_source", "dirty", "latest")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self._entries: tuple[tuple[int, int], ...] | None = ()
        self.latest = UNDEFINED
        self.dirty = False
        self.are_of_source = False
        """Of a mirror: its leaders start no epochs, so a replica may know a later one than the leader."""
        self._unsaved_start = UNDEFINED
        for epoch, start in entries:
            self.assign(epoch, start)
        self.dirty = False

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """Put together when somebody asks for the first time since they have changed."""
        if self._entries is None:
            self._entries = tuple(zip(self._epochs, self._starts, strict=True))
        return self._entries

    def assign(self, epoch: int, start_offset: int) -> None:
        """From `start_offset` on, batches are of `epoch`; a known or older epoch is no news. But if a newer one is said
        to begin at this very offset, it has left no batch: the file was written before that was known."""
        if epoch <= self.latest:
            if epoch < self.latest and start_offset in self._starts:
                self._drop_false(epoch, start_offset)
            return
        # An epoch that began at this offset or later has left no batch behind.
        while self._starts and self._starts[-1] >= start_offset:
            self._drop_last()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self._entries = None
        self.latest = epoch
        if not self.dirty or start_offset < self._unsaved_start:
            self._unsaved_start = start_offset
        self.dirty = True

    def _drop_false(self, epoch: int, offset: int) -> None:
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
        """Has something changed that matters? A new epoch does not before it has a batch: the next start drops it."""
        return self.dirty and self._unsaved_start < log_end

    def at(self, offset: int) -> int:
        """The epoch of the batch at `offset`."""
        entry = bisect_right(self._starts, offset) - 1
        return self._epochs[entry] if entry >= 0 else UNDEFINED

    def end_offset(self, epoch: int, log_end: int) -> tuple[int, int]:
        """(largest epoch <= `epoch`, offset where it ended), as OffsetForLeaderEpoch answers it."""
        if epoch == UNDEFINED or (not self._epochs and not self.are_of_source):
            return UNDEFINED, UNDEFINED
        if epoch == self.latest:
            return epoch, log_end
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return (max(self.latest, 0), log_end) if self.are_of_source else (UNDEFINED, UNDEFINED)
        return self._epochs[higher - 1] if higher else epoch, self._starts[higher]

    def truncate_end(self, offset: int) -> None:
        """The log now ends at `offset`."""
        while self._starts and self._starts[-1] >= offset:
            self._drop_last()
            self._changed()
        self.latest = self._epochs[-1] if self._epochs else UNDEFINED

    def truncate_start(self, offset: int) -> None:
        """The log now starts at `offset`: the epoch in force there starts there too."""
        keep = bisect_right(self._starts, offset) - 1
        if keep > 0 or (keep == 0 and self._starts[0] < offset):
            del self._epochs[:keep], self._starts[:keep]
            self._starts[0] = offset
            self._entries = None
            self._changed()

    def replace(self, entries: Iterable[tuple[int, int]]) -> None:
        """The log is another one: these are its epochs."""
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
        """The log has got another folder: the next flush writes the file."""
        self._changed()

    def _changed(self) -> None:
        self.dirty = True
        self._unsaved_start = UNDEFINED
