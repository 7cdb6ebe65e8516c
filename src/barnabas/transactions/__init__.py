"""The transaction coordinator (KIP-98, KIP-890, KIP-939).

`TransactionCoordinator` runs the state machine of `shard`, `transaction`, `initialization` and `ending` on the
coordinator runtime; `completion` and `marker_rounds` write the markers. `AddPartitionsToTxnManager` verifies with the
coordinator that a producer may write to a partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.transactions.admission import MAX_SEQUENCE as MAX_SEQUENCE
    from barnabas.transactions.admission import AddPartitionsToTxnManager as AddPartitionsToTxnManager
    from barnabas.transactions.admission import ClientVersion as ClientVersion
    from barnabas.transactions.admission import Errors as Errors
    from barnabas.transactions.admission import TransactionVerification as TransactionVerification
    from barnabas.transactions.admission import ended_previous as ended_previous
    from barnabas.transactions.admission import for_committer as for_committer
    from barnabas.transactions.admission import for_producer as for_producer
    from barnabas.transactions.admission import has_ended as has_ended
    from barnabas.transactions.admission import has_open as has_open
    from barnabas.transactions.admission import last_end as last_end
    from barnabas.transactions.admission import sender_of_offset_commit as sender_of_offset_commit
    from barnabas.transactions.admission import sender_of_produce as sender_of_produce
    from barnabas.transactions.coordinator import TransactionCoordinator as TransactionCoordinator
    from barnabas.transactions.coordinator import declare_transaction_metrics as declare_transaction_metrics
    from barnabas.transactions.listing import Filters as Filters
    from barnabas.transactions.markers import Marker as Marker
    from barnabas.transactions.markers import MarkerWriter as MarkerWriter
    from barnabas.transactions.producer_ids import ProducerIds as ProducerIds
    from barnabas.transactions.shard import TransactionResult as TransactionResult
    from barnabas.transactions.transaction import NO_EPOCH as NO_EPOCH
    from barnabas.transactions.transaction import NO_PRODUCER_ID as NO_PRODUCER_ID
    from barnabas.transactions.transaction import NO_TIMEOUT_MS as NO_TIMEOUT_MS
    from barnabas.transactions.transaction import V1 as V1
    from barnabas.transactions.transaction import V2 as V2
    from barnabas.transactions.transaction import Transaction as Transaction
else:
    __getattr__ = lazy_exports(__name__)
