"""EndTxn: which request ends a transaction, and which one is a retry.

Transactions V1 (EndTxn up to version 4): the epoch must be the current one; it does not change.

    state            commit                      abort
    Ongoing          PrepareCommit               PrepareAbort
    Prepare<same>    CONCURRENT_TRANSACTIONS     CONCURRENT_TRANSACTIONS
    Complete<same>   NONE: retry                 NONE: retry
    any other        INVALID_TXN_STATE           INVALID_TXN_STATE

Transactions V2 (version 5): the end raises the epoch, so a retry is recognised by the previous epoch. A
request
with the current epoch in Empty or Complete is new: there is nothing to commit, but an abort is carried out,
because
the producer cannot know whether its first batch arrived.

    state            epoch            commit                    abort
    Ongoing          current          PrepareCommit             PrepareAbort
    Prepare<same>    previous         CONCURRENT_TRANSACTIONS   CONCURRENT_TRANSACTIONS
    Complete<same>   previous         NONE: retry               NONE: retry
    Empty, Complete  current          INVALID_TXN_STATE         PrepareAbort
    any other        previous         INVALID_TXN_STATE         INVALID_TXN_STATE
    any              any other        PRODUCER_FENCED           PRODUCER_FENCED
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.coordination import ProducerIdAndEpoch
from barnabas.transactions.transaction import (
    LAST_EPOCH,
    NO_PRODUCER_ID,
    V2,
    Transaction,
    TransactionState,
    check_present,
    fenced,
)

_OUTCOME = {
    TransactionState.PREPARE_COMMIT: True,
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.PREPARE_ABORT: False,
    TransactionState.COMPLETE_ABORT: False,
}


def end(
    known: Transaction,
    instance: ProducerIdAndEpoch,
    *,
    committed: bool,
    version: int,
    now_ms: int,
    new_producer_id: Callable[[], int],
) -> Transaction:
    """The next state: decided, or `known` itself if the request is a retry."""
    is_retry = version >= V2 and _is_retry(known, instance)
    _check_instance(known, instance, version, is_retry)
    if known.is_ongoing or (version >= V2 and known.is_at_rest and not is_retry and not committed):
        return _decide(known, committed, version, now_ms, new_producer_id)
    if _OUTCOME.get(known.state) is not committed or not (is_retry or version < V2):
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE,
            f"{known.transactional_id} is in state {known.state.label}, which cannot be "
            + ("committed" if committed else "aborted"),
        )
    if known.is_decided:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "the markers are still being written")
    return known


def _is_retry(known: Transaction, instance: ProducerIdAndEpoch) -> bool:
    """True if the request carries the epoch that the end of the transaction has replaced."""
    if known.is_ongoing or known.state is TransactionState.EMPTY:
        return False
    if instance.producer_id == known.producer_id:
        # The epoch after LAST_EPOCH is reserved for fencing: no producer gets it.
        return instance.epoch + 1 == known.epoch and (known.is_decided or known.epoch <= LAST_EPOCH)
    return (
        not known.is_decided
        and instance.producer_id == known.previous_producer_id
        and instance.epoch == LAST_EPOCH
        and known.epoch == 0
    )


def _check_instance(known: Transaction, instance: ProducerIdAndEpoch, version: int, is_retry: bool) -> None:
    if is_retry:
        return
    check_present(known, instance)
    if version >= V2 and known.is_decided:
        raise fenced(known, instance)


def _decide(
    known: Transaction, committed: bool, version: int, now_ms: int, new_producer_id: Callable[[], int]
) -> Transaction:
    must_rotate = version >= V2 and known.epochs_are_used
    next_producer_id = new_producer_id() if must_rotate else NO_PRODUCER_ID
    return known.decided(
        committed=committed, version=version, next_producer_id=next_producer_id, now_ms=now_ms
    )
