"""Producer ids, and who writes to a partition.

InitProducerId versions 0 to 5 for idempotent producers; DescribeProducers version 0.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

    from barnabas.server.dispatch import Request


def init_producer_id(
    broker: Broker, request: Request, message: InitProducerIdRequest
) -> InitProducerIdResponse | Coroutine[Any, Any, InitProducerIdResponse]:
    if message.transactional_id is not None:
        return InitProducerIdResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    producer_id = broker.producer_ids.take()
    if producer_id is None:
        return _init_from_new_block(broker)
    return InitProducerIdResponse(producer_id=producer_id)


async def _init_from_new_block(broker: Broker) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=await broker.producer_ids.next())


def describe_producers(
    broker: Broker, request: Request, message: DescribeProducersRequest
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_describe(broker, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in message.topics
        ]
    )


def _describe(broker: Broker, topic: str, index: int) -> PartitionResponse:
    partition = broker.replicas.find(topic, index)
    if partition is None:
        return PartitionResponse(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    problem = partition.leadership_error(epoch=-1)
    if problem:
        return PartitionResponse(partition_index=index, error_code=problem)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=-1 if producer.transaction_start is None else producer.transaction_start,
            )
            for producer in partition.log.producers
        ],
    )
