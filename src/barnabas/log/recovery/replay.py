"""What a batch means for the producers and transactions of a partition, once it is in the log.

Used alike for an append by a coordinator, for batches copied from a leader, and when a log is recovered.
"""

from __future__ import annotations

from typing import Protocol

from barnabas.common.files import Bytes
from barnabas.log.producers import ProducerStates
from barnabas.log.segments.aborted_index import AbortedTransaction
from barnabas.records.batch import BatchHeader
from barnabas.records.control import EndTransactionMarker, parse_end_transaction
from barnabas.records.record import iterate_records


class NotesAborted(Protocol):
    def note_aborted(self, transaction: AbortedTransaction) -> None: ...


def transaction_marker(batch: Bytes, header: BatchHeader) -> EndTransactionMarker | None:
    """The end of a transaction that a control batch announces; None for other control records."""
    record = next(iterate_records(batch, header), None)
    return parse_end_transaction(record) if record is not None else None


def replay_batch(
    producers: ProducerStates,
    noting: NotesAborted | None,
    header: BatchHeader,
    first_offset: int,
    marker: EndTransactionMarker | None,
    now_ms: int,
) -> None:
    """Take note of a batch with a producer id that was appended at `first_offset`, at `now_ms` or earlier.

    An aborted transaction is noted in its segment or pending append; None where the index is complete.
    """
    if not header.is_control:
        producers.remember(header, first_offset, now_ms)
    elif marker is not None:
        _end_transaction(producers, noting, header, first_offset, marker, now_ms)


def _end_transaction(
    producers: ProducerStates,
    noting: NotesAborted | None,
    header: BatchHeader,
    offset: int,
    marker: EndTransactionMarker,
    now_ms: int,
) -> None:
    completed = producers.end_transaction(
        header, offset, marker.coordinator_epoch, now_ms, aborted=not marker.committed
    )
    if completed is not None and completed.aborted and noting is not None:
        stable = producers.stable_offset_after(completed)
        producer_id, first, last, _ = completed
        noting.note_aborted(AbortedTransaction(producer_id, first, last, stable))
