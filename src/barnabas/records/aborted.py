"""Which batches a reader of committed records must not see."""

from __future__ import annotations

from collections import deque

from barnabas.records.batch import BatchHeader
from barnabas.records.control import parse_end_transaction
from barnabas.records.record import iterate_records


class AbortedTransactions:
    """Knows, while the log goes by in order, whose records are inside a transaction that was aborted.

    `aborted`: (producer id, first offset) in the order of the offsets, as a Fetch answers them. Empty for those who
    read everything: control batches are hidden from them too.
    """

    def __init__(self, aborted: tuple[tuple[int, int], ...]) -> None:
        self._coming = deque(aborted)
        self._open: set[int] = set()

    def hide(self, batch: memoryview, header: BatchHeader) -> bool:
        """Whether a consumer must not see the batch: it is a marker, or was aborted."""
        while self._coming and self._coming[0][1] <= header.last_offset:
            self._open.add(self._coming.popleft()[0])
        if header.is_control:
            self._end(batch, header)
            return True
        return header.is_transactional and header.producer_id in self._open

    def _end(self, batch: memoryview, header: BatchHeader) -> None:
        for record in iterate_records(batch, header):
            if parse_end_transaction(record) is not None:
                self._open.discard(header.producer_id)
