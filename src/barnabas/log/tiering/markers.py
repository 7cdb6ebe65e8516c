"""Ends of transactions whose markers are lost: for a log that begins at the tiered end without its tail.

What is copied lies below the last stable offset, so every transaction that began below the tiered end T was decided
when it was copied; its marker may lie above T. In a log that has its tail, the marker is there. In one that begins at T
because all replicas were lost, or because it is a clone, it is not, and the last stable offset would stick for ever:

    a transaction that is open and began below T has lost its marker

which is true or not whatever was interrupted before. The footer of the last remote segment tells the outcome; it is an
abort where nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from barnabas.log.log import Log, Origin
from barnabas.records.control import EndTransactionMarker, end_transaction_marker


class Outcome(Protocol):
    """What a footer says of a transaction that was open at its end."""

    @property
    def producer_id(self) -> int: ...
    @property
    def first_offset(self) -> int: ...
    @property
    def committed(self) -> bool | None: ...


def lost_markers(log: Log, end: int | None = None) -> dict[int, int]:
    """Producer id -> first offset of transactions that nobody will end: those below `end`, or the tiered end."""
    end = log.offsets.tiered_end if end is None else end
    undecided = log.producers.undecided
    return {producer: first for producer, first in undecided.items() if first < end} if undecided else {}


def write_lost_markers(
    log: Log, known: Iterable[Outcome], leader_epoch: int, now_ms: int, end: int | None = None
) -> int:
    """Before anybody else writes. How many there were. KafkaError if the disk fails; what is left is written later."""
    committed = {(each.producer_id, each.first_offset) for each in known if each.committed}
    lost = lost_markers(log, end)
    for producer_id, first_offset in lost.items():
        producer = log.producers.get(producer_id)
        assert producer is not None
        outcome = (producer_id, first_offset) in committed
        marker = EndTransactionMarker(outcome, max(producer.coordinator_epoch, 0))
        batch = end_transaction_marker(producer_id, producer.epoch, marker, timestamp=now_ms)
        log.append_as_leader(memoryview(batch), leader_epoch, now_ms, Origin.COORDINATOR)
    return len(lost)
