"""Markers for transactions that lost theirs, in a log that was restored at the tiered end without its tail.

Copied segments are below the last stable offset, so every transaction that started below the tiered end T was decided
when it was copied, but its marker may be above T. A log that starts at T because all replicas were lost, or because it
is a clone, does not have that marker, and its last stable offset would never move. The criterion holds after any
interruption:

    an open transaction that started below T has lost its marker

The footer of the last remote segment has the outcome; if it does not, the transaction is aborted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from barnabas.log.log import Log, Origin
from barnabas.records import EndTransactionMarker, end_transaction_marker


class TransactionOutcome(Protocol):
    """Entry of a footer: outcome of a transaction that was open at the segment's end."""

    @property
    def producer_id(self) -> int: ...
    @property
    def first_offset(self) -> int: ...
    @property
    def committed(self) -> bool | None: ...


def lost_markers(log: Log, end: int | None = None) -> dict[int, int]:
    """Producer id -> first offset of open transactions that started below `end`, by default the tiered end."""
    end = log.offsets.tiered_end if end is None else end
    undecided = log.producers.undecided
    return {producer: first for producer, first in undecided.items() if first < end} if undecided else {}


def write_lost_markers(
    log: Log, known: Iterable[TransactionOutcome], leader_epoch: int, now_ms: int, end: int | None = None
) -> int:
    """Write the lost markers, before any other append; return their number.

    Raise KafkaError if the disk fails; the remaining markers are written later.
    """
    committed = {(each.producer_id, each.first_offset) for each in known if each.committed}
    lost = lost_markers(log, end)
    for producer_id, first_offset in lost.items():
        producer = log.producers.get(producer_id)
        assert producer is not None
        is_committed = (producer_id, first_offset) in committed
        marker = EndTransactionMarker(is_committed, max(producer.coordinator_epoch, 0))
        batch = end_transaction_marker(producer_id, producer.epoch, marker, timestamp=now_ms)
        log.append_as_leader(memoryview(batch), leader_epoch, now_ms, Origin.COORDINATOR)
    return len(lost)
