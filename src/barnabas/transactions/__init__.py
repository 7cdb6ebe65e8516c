"""The transaction coordinator (KIP-98, KIP-890, KIP-939).

`TransactionCoordinator` runs the state machine of `shard`, `transaction`, `initialization` and `ending` on
the
coordinator runtime; `completion` and `marker_rounds` write the markers. `AddPartitionsToTxnManager` verifies
with
the coordinator that a producer may write to a partition.
"""
