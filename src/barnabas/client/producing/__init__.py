"""Parts of the producer: record accumulator, senders per partition, transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.client.producing.batch_producer import (
        BatchProducer,
        Placed,
        RecordBatch,
        Sealable,
        TransactionalBatchProducer,
        TransactionalProducer,
    )
    from barnabas.client.producing.batch_sender import MAX_BYTES, BatchSender
    from barnabas.client.producing.producer_ids import NO_PRODUCER_ID, ProducerIdentity, init_producer_id
    from barnabas.client.producing.record_accumulator import Delivered, RecordDelivery, partition_for_key
    from barnabas.client.producing.transactional import FENCED, USUAL_LONGEST_TIMEOUT_MS, TransactionRequests
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "batch_producer": (
                "BatchProducer Placed RecordBatch Sealable TransactionalBatchProducer TransactionalProducer"
            ),
            "batch_sender": "BatchSender MAX_BYTES",
            "producer_ids": "NO_PRODUCER_ID ProducerIdentity init_producer_id",
            "record_accumulator": "Delivered RecordDelivery partition_for_key",
            "transactional": "FENCED TransactionRequests USUAL_LONGEST_TIMEOUT_MS",
        },
    )

__all__ = [
    "FENCED",
    "MAX_BYTES",
    "NO_PRODUCER_ID",
    "USUAL_LONGEST_TIMEOUT_MS",
    "BatchProducer",
    "BatchSender",
    "Delivered",
    "Placed",
    "ProducerIdentity",
    "RecordBatch",
    "RecordDelivery",
    "Sealable",
    "TransactionRequests",
    "TransactionalBatchProducer",
    "TransactionalProducer",
    "init_producer_id",
    "partition_for_key",
]
