"""InitProducerId: a producer instance takes over a transactional id.

    state                    response
    none, Empty, Complete*   the next epoch; another producer id when the epochs of this one are exhausted
    Ongoing                  the open transaction is aborted and its epoch fenced: CONCURRENT_TRANSACTIONS
    Prepare*                 CONCURRENT_TRANSACTIONS, until the markers are written

A request may carry the producer id and epoch of its sender (KIP-360), which recovers from an error and must
not take
the id from a newer instance. Then the epoch must be the current one, or the previous one if the response to
the
first attempt was lost; all others get PRODUCER_FENCED.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.coordination import ProducerIdAndEpoch
from barnabas.transactions.transaction import (
    DECIDED,
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    TransactionState,
    fenced,
)


def initialize(
    known: Transaction,
    expected: ProducerIdAndEpoch | None,
    timeout_ms: int,
    version: int,
    now_ms: int,
    new_producer_id: Callable[[], int],
) -> Transaction:
    """The next state. If it is decided, the client must retry when the abort is complete."""
    if expected is not None and not _may_be(known, expected):
        raise fenced(known, expected)
    if known.state in DECIDED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "the last transaction is not yet complete")
    if known.state is TransactionState.ONGOING:
        return known.fenced(version, now_ms)
    if known.epochs_are_used and (expected is None or expected.epoch == known.epoch):
        asked_by = NO_PRODUCER_ID if expected is None else known.producer_id
        return known.rotated(new_producer_id(), timeout_ms, now_ms, asked_by=asked_by)
    return _raise_epoch(known, expected, timeout_ms, now_ms)


def _may_be(known: Transaction, expected: ProducerIdAndEpoch) -> bool:
    """True if this may be the latest instance. Its epoch is checked later."""
    return (
        known.epoch == NO_EPOCH  # the id has expired meanwhile: start over
        or expected.producer_id == known.producer_id
        or (expected.producer_id == known.previous_producer_id and expected.epoch >= LAST_EPOCH)
    )


def _raise_epoch(
    known: Transaction, expected: ProducerIdAndEpoch | None, timeout_ms: int, now_ms: int
) -> Transaction:
    if expected is None or known.epoch == NO_EPOCH:
        return known.initialized(known.epoch + 1, timeout_ms, now_ms, asked_by=NO_PRODUCER_ID)
    if expected.epoch == known.epoch:
        return known.initialized(known.epoch + 1, timeout_ms, now_ms, asked_by=known.producer_id)
    if expected.epoch == known.last_epoch:  # a retry: the response was lost
        return known.initialized(known.epoch, timeout_ms, now_ms, asked_by=expected.producer_id)
    raise fenced(known, expected)
