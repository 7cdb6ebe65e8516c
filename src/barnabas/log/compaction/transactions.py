"""Transactions as a compaction meets them, batch by batch: what was aborted, and which markers are done with."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from barnabas.common.files import Bytes
from barnabas.log.segments.aborted_index import AbortedTransaction
from barnabas.records.batch import BatchHeader
from barnabas.records.control import ControlType, control_type
from barnabas.records.record import iterate_records


class _Aborted:
    """An aborted transaction whose beginning has been passed, and whose marker has not."""

    __slots__ = ("entry", "has_batches")

    def __init__(self, entry: AbortedTransaction) -> None:
        self.entry = entry
        self.has_batches = False


class Transactions:
    """Told of every batch in order. `index` collects the entries that the new segment's index needs."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = deque(sorted(aborted, key=lambda entry: entry.first_offset))
        self._aborting: dict[int, _Aborted] = {}
        self._committing: set[int] = set()
        self.index: list[AbortedTransaction] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Was this batch of records aborted? Then nobody needs its records any more."""
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
        """Is this a marker of a transaction of which no batch is left below?"""
        self._advance(header.last_offset)
        record = next(iterate_records(batch, header), None)
        if record is None:
            return True  # the rest of a marker that was done with before
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
        # Entry and marker go together, in a later round: until the swap, readers still meet the batches.
        self.index.append(aborting.entry)
        return False

    def _advance(self, offset: int) -> None:
        while self._coming and self._coming[0].first_offset <= offset:
            entry = self._coming.popleft()
            self._aborting.setdefault(entry.producer_id, _Aborted(entry))

    def take_index(self) -> list[AbortedTransaction]:
        """The entries since the last call, for one segment."""
        index, self.index = self.index, []
        return index
