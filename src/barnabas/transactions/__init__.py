"""The transaction coordinator (KIP-98, KIP-890, KIP-939).

`TransactionCoordinator` runs the state machine of `shard`, `transaction`, `initialization` and `ending` on the
coordinator runtime; `completion` and `marker_rounds` write the markers. `AddPartitionsToTxnManager` verifies with the
coordinator that a producer may write to a partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.transactions.admission import (
        MAX_SEQUENCE,
        AddPartitionsToTxnManager,
        ClientVersion,
        Errors,
        TransactionVerification,
        ended_previous,
        for_committer,
        for_producer,
        has_ended,
        has_open,
        last_end,
        sender_of_offset_commit,
        sender_of_produce,
    )
    from barnabas.transactions.coordinator import TransactionCoordinator, declare_transaction_metrics
    from barnabas.transactions.listing import Filters
    from barnabas.transactions.markers import Marker, MarkerWriter
    from barnabas.transactions.producer_ids import ProducerIds
    from barnabas.transactions.shard import TransactionResult
    from barnabas.transactions.transaction import NO_EPOCH, NO_PRODUCER_ID, NO_TIMEOUT_MS, V1, V2, Transaction
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "admission": (
                "AddPartitionsToTxnManager ClientVersion Errors MAX_SEQUENCE TransactionVerification "
                "ended_previous for_committer for_producer has_ended has_open last_end sender_of_offset_commit "
                "sender_of_produce"
            ),
            "coordinator": "TransactionCoordinator declare_transaction_metrics",
            "listing": "Filters",
            "markers": "Marker MarkerWriter",
            "producer_ids": "ProducerIds",
            "shard": "TransactionResult",
            "transaction": "NO_EPOCH NO_PRODUCER_ID NO_TIMEOUT_MS Transaction V1 V2",
        },
    )

__all__ = [
    "MAX_SEQUENCE",
    "NO_EPOCH",
    "NO_PRODUCER_ID",
    "NO_TIMEOUT_MS",
    "V1",
    "V2",
    "AddPartitionsToTxnManager",
    "ClientVersion",
    "Errors",
    "Filters",
    "Marker",
    "MarkerWriter",
    "ProducerIds",
    "Transaction",
    "TransactionCoordinator",
    "TransactionResult",
    "TransactionVerification",
    "declare_transaction_metrics",
    "ended_previous",
    "for_committer",
    "for_producer",
    "has_ended",
    "has_open",
    "last_end",
    "sender_of_offset_commit",
    "sender_of_produce",
]
