"""Transactions as records of `__transaction_state`, as Apache Kafka 4.3 writes and reads them."""

from __future__ import annotations

from itertools import groupby

from barnabas.coordination.shard import CoordinatorRecord
from barnabas.common.files import Bytes
from barnabas.protocol.coordinator_records import (
    TRANSACTION_RECORDS,
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
from barnabas.transactions.states import TransactionState
from barnabas.transactions.transaction import Transaction
from barnabas.common.types import TopicPartition

VALUE_VERSION = 1  # flexible, since transactions V2; what came later stands in tagged fields


def to_record(transaction: Transaction) -> CoordinatorRecord:
    """The record that makes this the state of its id; a tombstone when the id is dead."""
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
        PartitionsSchema(topic=topic, partition_ids=[place.partition for place in places])
        for topic, places in groupby(sorted(transaction.partitions), key=lambda place: place.topic)
    ]


def from_record(key: Bytes, value: Bytes | None) -> tuple[str, Transaction | None]:
    """The id, and its state; None for a tombstone. An unknown type of record raises `UnknownRecordTypeError`."""
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
