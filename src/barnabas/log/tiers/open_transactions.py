"""Transactions that were open at the tiered end, when the log goes on there without its tail.

What is copied lies below the last stable offset: so each of these had been decided when its segment was copied, though
its marker lies above the tiered end. If all replicas have lost that, the marker must be written anew, or the last
stable offset would never move again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from barnabas.log.producer import Producer
from barnabas.records.control import EndTransactionMarker, end_transaction_marker


class OpenTransaction(Protocol):
    """As the footer of a remote segment tells of it."""

    @property
    def producer_id(self) -> int: ...
    @property
    def first_offset(self) -> int: ...
    @property
    def committed(self) -> bool | None: ...


def missing_markers(
    transactions: Iterable[OpenTransaction], producers: Iterable[Producer], now_ms: int
) -> list[bytearray]:
    """The batches that end whatever `producers`, the state at the tiered end, have open. One of which no outcome is
    known is aborted: nobody was told that it was committed."""
    outcomes = {(each.producer_id, each.first_offset): each.committed for each in transactions}
    return [
        end_transaction_marker(
            producer.producer_id,
            producer.epoch,
            EndTransactionMarker(
                bool(outcomes.get((producer.producer_id, producer.transaction_start))),
                max(producer.coordinator_epoch, 0),
            ),
            timestamp=now_ms,
        )
        for producer in producers
        if producer.transaction_start is not None
    ]
