"""Apply an appended batch to the producer states and transactions of a partition.

Used for appends by a coordinator, for batches fetched from a leader, and in recovery.
"""

from __future__ import annotations

from typing import Protocol

from barnabas.common.files import Bytes
from barnabas.log.producers import ProducerStates
from barnabas.log.segments.aborted_index import AbortedTransaction
from barnabas.records import EndTransactionMarker, iterate_records, parse_end_transaction
from barnabas.records.batch import BatchHeader


class NotesAborted(Protocol):
    def note_aborted(self, transaction: AbortedTransaction) -> None: ...


def transaction_marker(batch: Bytes, header: BatchHeader) -> EndTransactionMarker | None:
    """Parse the transaction marker of a control batch; None for other control records."""
    record = next(iterate_records(batch, header), None)
    return parse_end_transaction(record) if record is not None else None


def replay_batch(
    producers: ProducerStates,
    aborted_index: NotesAborted | None,
    header: BatchHeader,
    first_offset: int,
    marker: EndTransactionMarker | None,
    now_ms: int,
) -> None:
    """Apply a batch with a producer id that was appended at `first_offset`, at `now_ms` or earlier.

    `aborted_index` is the segment or pending append that records aborted transactions; None if the index is complete.
    """
    if not header.is_control:
        producers.remember(header, first_offset, now_ms)
    elif marker is not None:
        _end_transaction(producers, aborted_index, header, first_offset, marker, now_ms)


def _end_transaction(
    producers: ProducerStates,
    aborted_index: NotesAborted | None,
    header: BatchHeader,
    offset: int,
    marker: EndTransactionMarker,
    now_ms: int,
) -> None:
    completed = producers.end_transaction(
        header, offset, marker.coordinator_epoch, now_ms, aborted=not marker.committed
    )
    if completed is not None and completed.aborted and aborted_index is not None:
        stable = producers.stable_offset_after(completed)
        producer_id, first, last, _ = completed
        aborted_index.note_aborted(AbortedTransaction(producer_id, first, last, stable))
