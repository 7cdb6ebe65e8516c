"""The transactional ids of one partition of `__transaction_state` (Kafka's TransactionStateManager).

Requests are functions of the shard that the runtime calls: they return a result and change nothing. Only
`replay` changes state, for a record just appended as well as for one read during the load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple, Protocol

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import Bytes
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.common.types import TopicPartition
from barnabas.coordination import CoordinatorRecord, CoordinatorResult, ProducerIdAndEpoch
from barnabas.protocol.coordinator_records import (
    TRANSACTION_RECORDS,
    UnknownRecordTypeError,
    decode_key,
    decode_value,
    encode_key,
    encode_versioned,
)
from barnabas.protocol.messages.records.transaction import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from barnabas.records import Record
from barnabas.transactions.bounds import IDS, OpenWithoutTimeout
from barnabas.transactions.ending import end
from barnabas.transactions.initialization import initialize
from barnabas.transactions.transaction import Transaction, TransactionState, check_present

# -- Transactions as records of `__transaction_state`, as Apache Kafka 4.3 writes and reads them -------

VALUE_VERSION = 1  # flexible, since transactions V2; later additions are tagged fields


def to_record(transaction: Transaction) -> CoordinatorRecord:
    """The record of this state; a tombstone if the id is dead."""
    key = encode_key(TransactionLogKey(transactional_id=transaction.transactional_id))
    if transaction.state is TransactionState.DEAD:
        return CoordinatorRecord(key, None)
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=_by_topic(transaction),
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.version,
    )
    return CoordinatorRecord(key, encode_versioned(value, VALUE_VERSION))


def _by_topic(transaction: Transaction) -> list[PartitionsSchema] | None:
    if transaction.state is TransactionState.EMPTY:
        return None
    return [
        PartitionsSchema(topic=topic, partition_ids=[tp.partition for tp in partitions])
        for topic, partitions in groupby(sorted(transaction.partitions), key=lambda tp: tp.topic)
    ]


def from_record(key: Bytes, value: Bytes | None) -> tuple[str, Transaction | None]:
    """The id, and its state; None for a tombstone. An unknown record type raises `UnknownRecordTypeError`."""
    log_key: TransactionLogKey = decode_key(TRANSACTION_RECORDS, key)
    transactional_id = log_key.transactional_id
    if value is None:
        return transactional_id, None
    read: TransactionLogValue = decode_value(TRANSACTION_RECORDS, log_key, value)
    return transactional_id, Transaction(
        transactional_id,
        read.producer_id,
        read.transaction_timeout_ms,
        read.transaction_last_update_timestamp_ms,
        epoch=read.producer_epoch,
        state=TransactionState(read.transaction_status),
        partitions=frozenset(
            TopicPartition(topic.topic, index)
            for topic in read.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        started_ms=read.transaction_start_timestamp_ms,
        version=read.client_transaction_version,
        previous_producer_id=read.previous_producer_id,
        next_producer_id=read.next_producer_id,
    )


logger = rate_limited_logger(__name__)


class TransactionResult(NamedTuple):
    """The resulting state of an id; `error` is for the client, even though the state may have changed."""

    transaction: Transaction
    error: ErrorCode = ErrorCode.NONE


class ShardOwner(Protocol):
    """Resumes what a shard finds unfinished in its log."""

    def shard_loaded(self, shard: TransactionShard) -> None: ...

    def shard_unloaded(self, shard: TransactionShard) -> None: ...


class TransactionShard:
    """Ids in the order of their last change, least recent first; at most `limit()` of them."""

    def __init__(self, index: int, owner: ShardOwner, *, limit: Callable[[], int]) -> None:
        self.index = index
        self._owner = owner
        self._limit = limit
        self._transactions: dict[str, Transaction] = {}
        self.without_timeout = OpenWithoutTimeout()

    def __len__(self) -> int:
        return len(self._transactions)

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._transactions.values())

    def get(self, transactional_id: str) -> Transaction | None:
        return self._transactions.get(transactional_id)

    # -- requests -----------------------------------------------------------------------------------

    def initialize(
        self,
        transactional_id: str,
        expected: ProducerIdAndEpoch | None,
        timeout_ms: int,
        version: int,
        now_ms: int,
        new_producer_id: Callable[[], int],
    ) -> CoordinatorResult[TransactionResult]:
        """Handle InitProducerId.

        CONCURRENT_TRANSACTIONS with a decided transaction: it has just been aborted.
        """
        known = self._transactions.get(transactional_id)
        records = [] if known is not None else self._make_room()
        if known is None:
            known = Transaction(transactional_id, new_producer_id(), timeout_ms, now_ms)
        fresh = initialize(known, expected, timeout_ms, version, now_ms, new_producer_id)
        error = ErrorCode.CONCURRENT_TRANSACTIONS if fresh.is_decided else ErrorCode.NONE
        return CoordinatorResult(TransactionResult(fresh, error), [*records, to_record(fresh)])

    def _make_room(self) -> list[CoordinatorRecord]:
        """Evict the id that was unused for longest; raise if all ids have an open transaction."""
        if len(self._transactions) < self._limit():
            return []
        silent = next((one for one in self if one.is_at_rest), None)
        if silent is None:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"too many transactional ids in use ({IDS})")
        return [to_record(silent.dead())]

    def add_partitions(
        self,
        transactional_id: str,
        instance: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        version: int,
        now_ms: int,
    ) -> CoordinatorResult[TransactionResult]:
        known = self._present(transactional_id, instance)
        if known.is_decided:
            raise _still_completing(known)
        if known.is_ongoing and known.partitions.issuperset(partitions):
            return CoordinatorResult(TransactionResult(known))
        fresh = known.with_partitions(partitions, version, now_ms)
        return CoordinatorResult(TransactionResult(fresh), [to_record(fresh)])

    def verify(
        self, transactional_id: str, instance: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Check that the partitions are in the transaction; if not, the client must abort."""
        known = self._present(transactional_id, instance)
        if known.is_decided:
            raise _still_completing(known)
        return {
            tp: ErrorCode.NONE if tp in known.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for tp in partitions
        }

    def end(
        self,
        transactional_id: str,
        instance: ProducerIdAndEpoch,
        *,
        committed: bool,
        version: int,
        now_ms: int,
        new_producer_id: Callable[[], int],
    ) -> CoordinatorResult[TransactionResult]:
        """Handle EndTxn. A decided transaction in the outcome means that its markers must be written."""
        known = self._known(transactional_id)
        fresh = end(
            known,
            instance,
            committed=committed,
            version=version,
            now_ms=now_ms,
            new_producer_id=new_producer_id,
        )
        records = [] if fresh is known else [to_record(fresh)]
        return CoordinatorResult(TransactionResult(fresh), records)

    def _known(self, transactional_id: str) -> Transaction:
        known = self._transactions.get(transactional_id)
        if known is None:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"no producer has initialized {transactional_id!r}"
            )
        return known

    def _present(self, transactional_id: str, instance: ProducerIdAndEpoch) -> Transaction:
        known = self._known(transactional_id)
        check_present(known, instance)
        return known

    # -- transitions by the coordinator ------------------------------------------------------------

    def complete(self, decided: Transaction, now_ms: int) -> CoordinatorResult[Transaction | None]:
        """Complete `decided`, whose markers are all written; None if it has changed meanwhile."""
        known = self._transactions.get(decided.transactional_id)
        if known is None or known != decided:
            return CoordinatorResult(None)
        fresh = known.completed(now_ms)
        return CoordinatorResult(fresh, [to_record(fresh)])

    def abort_timed_out(
        self, transactional_id: str, version: int, now_ms: int
    ) -> CoordinatorResult[Transaction | None]:
        """Fence and abort a transaction that has exceeded its timeout."""
        known = self._transactions.get(transactional_id)
        if known is None or not known.has_timed_out(now_ms):
            return CoordinatorResult(None)
        fresh = known.fenced(version, now_ms)
        return CoordinatorResult(fresh, [to_record(fresh)])

    def expire(self, last_update_ms: int, limit: int) -> CoordinatorResult[int]:
        """Expire up to `limit` ids without an open transaction, unused since `last_update_ms`."""
        records: list[CoordinatorRecord] = []
        for transaction in self:
            if transaction.updated_ms > last_update_ms or len(records) >= limit:
                break
            if transaction.is_at_rest:
                records.append(to_record(transaction.dead()))
        return CoordinatorResult(len(records), records)

    def timed_out(self, now_ms: int) -> list[Transaction]:
        return [transaction for transaction in self if transaction.has_timed_out(now_ms)]

    def decided(self) -> list[Transaction]:
        return [transaction for transaction in self if transaction.is_decided]

    # -- the log ------------------------------------------------------------------------------------

    def replay(self, record: Record, producer: ProducerIdAndEpoch | None) -> None:
        try:
            transactional_id, transaction = from_record(record.key or b"", record.value)
        except UnknownRecordTypeError as error:
            logger.warning("skipping offset %d of __transaction_state: %s", record.offset, error)
            return
        self._transactions.pop(transactional_id, None)
        self.without_timeout.note(transactional_id, transaction)
        if transaction is not None:
            self._transactions[transactional_id] = transaction

    def complete_transaction(self, producer: ProducerIdAndEpoch, *, committed: bool) -> None:
        """Nothing to do: records of `__transaction_state` are never transactional."""

    def loaded(self) -> None:
        self._owner.shard_loaded(self)

    def unloaded(self) -> None:
        self._owner.shard_unloaded(self)


def _still_completing(known: Transaction) -> KafkaError:
    return KafkaError(
        ErrorCode.CONCURRENT_TRANSACTIONS,
        f"the previous transaction of {known.transactional_id} is not yet complete",
    )
