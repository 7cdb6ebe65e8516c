"""Transaction state during a compaction pass: detects aborted batches and markers that are no longer needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from barnabas.common.files import Bytes
from barnabas.log.segments.aborted_index import AbortedTransaction
from barnabas.records import ControlType, control_type, iterate_records
from barnabas.records.batch import BatchHeader


class _Aborted:
    """An aborted transaction between its first batch and its marker."""

    __slots__ = ("entry", "has_batches")

    def __init__(self, entry: AbortedTransaction) -> None:
        self.entry = entry
        self.has_batches = False


class CompactedTransactions:
    """Processes every batch in offset order. `index` collects the entries of the new segment's transaction index."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = deque(sorted(aborted, key=lambda entry: entry.first_offset))
        self._aborting: dict[int, _Aborted] = {}
        self._committing: set[int] = set()
        self.index: list[AbortedTransaction] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """True if the batch belongs to an aborted transaction; its records can be removed."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        aborting = self._aborting.get(header.producer_id)
        if aborting is None:
            self._committing.add(header.producer_id)
            return False
        aborting.has_batches = True
        return True

    def is_done(self, header: BatchHeader, batch: Bytes) -> bool:
        """True if the control batch is the marker of a transaction without remaining batches."""
        self._advance(header.last_offset)
        record = next(iterate_records(batch, header), None)
        if record is None:
            return True  # an earlier compaction removed the marker and kept the header
        kind = control_type(record)
        if kind is ControlType.ABORT:
            return self._ends_abort(header.producer_id)
        if kind is ControlType.COMMIT:
            committing = header.producer_id in self._committing
            self._committing.discard(header.producer_id)
            return not committing
        return False

    def _ends_abort(self, producer_id: int) -> bool:
        aborting = self._aborting.pop(producer_id, None)
        if aborting is None or not aborting.has_batches:
            return True
        # Keep index entry and marker for now: readers still see the batches until the swap.
        self.index.append(aborting.entry)
        return False

    def _advance(self, offset: int) -> None:
        while self._coming and self._coming[0].first_offset <= offset:
            entry = self._coming.popleft()
            self._aborting.setdefault(entry.producer_id, _Aborted(entry))

    def take_index(self) -> list[AbortedTransaction]:
        """Return and clear the entries collected for one segment."""
        index, self.index = self.index, []
        return index
