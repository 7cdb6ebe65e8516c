"""Parts of the producer: record accumulator, senders per partition, transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.client.producing.batch_producer import BatchProducer as BatchProducer
    from barnabas.client.producing.batch_producer import Placed as Placed
    from barnabas.client.producing.batch_producer import RecordBatch as RecordBatch
    from barnabas.client.producing.batch_producer import (
        TransactionalBatchProducer as TransactionalBatchProducer,
    )
    from barnabas.client.producing.batch_producer import TransactionalProducer as TransactionalProducer
    from barnabas.client.producing.batch_producer import UnsealedBatch as UnsealedBatch
    from barnabas.client.producing.batch_sender import MAX_BYTES as MAX_BYTES
    from barnabas.client.producing.batch_sender import BatchSender as BatchSender
    from barnabas.client.producing.producer_ids import NO_PRODUCER_ID as NO_PRODUCER_ID
    from barnabas.client.producing.producer_ids import ProducerIdentity as ProducerIdentity
    from barnabas.client.producing.producer_ids import init_producer_id as init_producer_id
    from barnabas.client.producing.record_accumulator import Delivered as Delivered
    from barnabas.client.producing.record_accumulator import RecordDelivery as RecordDelivery
    from barnabas.client.producing.record_accumulator import partition_for_key as partition_for_key
    from barnabas.client.producing.transactional import DEFAULT_MAX_TIMEOUT_MS as DEFAULT_MAX_TIMEOUT_MS
    from barnabas.client.producing.transactional import FENCED as FENCED
    from barnabas.client.producing.transactional import TransactionRequests as TransactionRequests
else:
    __getattr__ = lazy_exports(__name__)
