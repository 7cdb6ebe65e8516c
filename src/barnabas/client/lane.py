"""Delivers the batches of one partition, one after the other.

At most one batch of a partition is under way. Whatever happens to it, a retry therefore never changes the
order, and while it travels the next batch fills: batches grow with the load.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.client.backoff import Backoff, Deadline
from barnabas.client.cluster import is_retriable
from barnabas.client.errors import ClientError, error_code
from barnabas.client.outbox import Outbox, PendingBatch, Placed
from barnabas.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.records.batch import add_to_sequence
from barnabas.records.builder import build_batch
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.producer import Producer

# The broker has forgotten this producer, or has seen another one with its id: start anew with a fresh id.
IDENTITY_IS_GONE = frozenset(
    {
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


@dataclass(frozen=True, slots=True)
class Identity:
    """What InitProducerId gave: brokers recognise a repeated batch by it and the batch's sequence number."""

    producer_id: int = -1
    epoch: int = -1


class Lane:
    def __init__(self, producer: Producer, partition: TopicPartition) -> None:
        self.partition = partition
        self.outbox = Outbox(partition, producer.settings.batch_bytes)
        self.busy = False
        self.wake = asyncio.Event()
        self._producer = producer
        self._client = producer.client
        self._identity = Identity()
        self._sequence = -1

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            while not self.outbox:
                self.wake.clear()
                await self.wake.wait()
            await self._linger(self.outbox.oldest())
            self.busy = True
            batch = self.outbox.take()
            try:
                await self._deliver(batch)
            finally:
                self.busy = False
                self._producer.batch_finished(batch)

    async def _linger(self, batch: PendingBatch) -> None:
        """Wait for company, but not for long."""
        left = batch.opened + self._producer.settings.linger - time.monotonic()
        if left > 0 and not batch.ready.is_set():
            try:
                async with asyncio.timeout(left):
                    await batch.ready.wait()
            except TimeoutError:
                return

    async def _deliver(self, batch: PendingBatch) -> None:
        try:
            batch.resolve(await self._append(batch))
        except (KafkaError, ClientError) as error:
            if _is_too_large(error) and len(batch.records) > 1:
                for half in batch.split():
                    await self._deliver(half)
                return
            # Its sequence numbers may or may not be in the log: nothing can follow them under this identity.
            self._producer.forget_identity(self._identity)
            self._producer.note_failure(error)
            batch.fail(error)
        except asyncio.CancelledError:
            batch.fail(ClientError(f"the producer was closed before {self.partition} took the record"))
            raise

    async def _append(self, batch: PendingBatch) -> Placed:
        deadline, backoff = Deadline(self._producer.settings.delivery_timeout), Backoff()
        data = b""
        while True:
            try:
                data = data or await self._build(batch)
                result = await self._send(data, deadline)
                self._sequence = add_to_sequence(self._sequence, len(batch.records))
                return result
            except (KafkaError, ClientError) as error:
                if deadline.passed:
                    raise
                if (
                    isinstance(error, KafkaError)
                    and error.code in IDENTITY_IS_GONE
                    and self._identity.epoch >= 0
                ):
                    self._producer.forget_identity(self._identity)
                    data = b""
                elif not is_retriable(error):
                    raise
            await backoff.wait(deadline)
            await self._client.refresh_quietly([self.partition.topic])

    async def _build(self, batch: PendingBatch) -> bytes:
        identity = await self._producer.identity()
        if identity != self._identity:
            self._identity = identity
            self._sequence = 0 if identity.epoch >= 0 else -1
        settings = self._producer.settings
        built = build_batch(
            batch.records,
            compression=settings.codec,
            level=settings.level,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=self._sequence,
        )
        return bytes(built)

    async def _send(self, data: bytes, deadline: Deadline) -> Placed:
        leader = await self._client.leader(self.partition)
        settings = self._producer.settings
        topic = TopicProduceData(
            name=self.partition.topic,
            topic_id=self._client.metadata.topics[self.partition.topic].id,
            partition_data=[PartitionProduceData(index=self.partition.partition, records=data)],
        )
        wait = min(self._client.request_timeout, max(deadline.remaining, 1.0))
        request = ProduceRequest(acks=settings.acks, timeout_ms=int(wait * 1000), topic_data=[topic])
        if settings.acks == 0:
            await (await self._client.connection_to(leader)).send_without_answer(request)
            return Placed(-1, -1)
        response: ProduceResponse = await self._client.send_to_broker(leader, request, wait)
        return self._check(response.responses[0].partition_responses[0])

    def _check(self, answer: PartitionProduceResponse) -> Placed:
        code = error_code(answer.error_code)
        if code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            raise KafkaError(code, _explain(self.partition, answer))
        return Placed(answer.base_offset, answer.log_append_time_ms)


def _is_too_large(error: Exception) -> bool:
    too_large = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
    return isinstance(error, KafkaError) and error.code in too_large


def _explain(partition: TopicPartition, answer: PartitionProduceResponse) -> str:
    """The broker's words about the batch and its records."""
    text = answer.error_message or f"{partition} did not take the records"
    details = [error.batch_index_error_message for error in answer.record_errors]
    return "; ".join([text, *(detail for detail in details if detail)])
