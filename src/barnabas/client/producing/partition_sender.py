"""Delivers the batches of one partition, one after the other.

At most one batch of a partition is in flight, so a retry never changes the
order. The next batch fills meanwhile: batches grow with the load.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

from barnabas.client.errors import ClientError, is_retriable
from barnabas.client.producing.batch_sender import BatchPosition, BatchSender
from barnabas.client.producing.producer_ids import NO_PRODUCER_ID, PRODUCER_ID_IS_GONE
from barnabas.client.producing.record_accumulator import BatchQueue, ProducerBatch
from barnabas.client.retry import RetryPolicy, retry
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition
from barnabas.records import build_batch
from barnabas.records.batch import add_to_sequence

if TYPE_CHECKING:
    from barnabas.client.producer import Producer

logger = safe_logger(__name__)

# Elections and restarts take less time than the first; a user who waits needs the reason of anything longer.
WARNING_DELAY, WARNING_INTERVAL = 5.0, 20.0
MIN_WAIT = 1.0  # seconds for one request, even if the delivery timeout is nearly over


class PartitionSender:
    def __init__(self, producer: Producer, partition: TopicPartition) -> None:
        self.partition = partition
        self.loop, self.thread = asyncio.get_running_loop(), threading.get_ident()
        self.queue = BatchQueue(partition, producer.settings.batch_bytes, self.loop)
        self.busy = False
        self.wake = asyncio.Event()
        self._producer = producer
        self._client = producer.client
        self._transactions = producer.transactions
        transactional_id = None if self._transactions is None else self._transactions.transactional_id
        self._sender = BatchSender(producer.client, producer.settings.acks, transactional_id)
        self._identity = NO_PRODUCER_ID
        self._sequence = -1

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            while not self.queue:
                self.wake.clear()
                await self.wake.wait()
            await self._linger(self.queue.oldest())
            with self._producer.lock:
                batch = self.queue.take() if self.queue else None
            if batch is None:
                continue  # discarded meanwhile
            self.busy = True
            try:
                await self._deliver(batch)
            finally:
                self.busy = False
                self._producer.batch_finished(batch)

    async def _linger(self, batch: ProducerBatch) -> None:
        """Wait up to `linger` for more records."""
        end = batch.opened + self._producer.settings.linger
        while (left := end - time.monotonic()) > 0 and not batch.ready:
            self.wake.clear()
            try:
                async with asyncio.timeout(left):
                    await self.wake.wait()
            except TimeoutError:
                return

    async def _deliver(self, batch: ProducerBatch) -> None:
        try:
            batch.resolve(await self._append(batch))
        except (KafkaError, ClientError) as error:
            if _is_too_large(error) and len(batch.records) > 1:
                for half in batch.split():
                    await self._deliver(half)
                return
            # Its sequence numbers may or may not be in the log: nothing can follow them under this id.
            self._producer.forget_identity(self._identity)
            failure = error if self._transactions is None else self._transactions.failed(error)
            self._producer.note_failure(failure)
            batch.fail(failure)
        except asyncio.CancelledError:
            batch.fail(ClientError(f"the producer was closed before {self.partition} took the record"))
            raise

    async def _append(self, batch: ProducerBatch) -> BatchPosition:
        policy = RetryPolicy(self._producer.settings.delivery_timeout, self._is_retriable)
        next_warning = time.monotonic() + WARNING_DELAY
        data = b""

        async def attempt() -> BatchPosition:
            nonlocal data
            data = data or await self._build(batch)
            if self._transactions is not None:
                await self._transactions.join(self.partition)
                self._sender.transactions_v2 = self._transactions.is_v2
            timeout = min(self._client.request_timeout, max(policy.deadline.remaining, MIN_WAIT))
            outcome = await self._sender.send({self.partition: data}, timeout)
            outcome.raise_first()
            return outcome.appended[self.partition]

        async def recover(error: Exception) -> None:
            nonlocal data, next_warning
            if time.monotonic() >= next_warning:
                next_warning += WARNING_INTERVAL
                logger.warning("%s: %s; retries for %.0f s", self.partition, error, policy.deadline.remaining)
            if self._needs_new_id(error):
                self._producer.forget_identity(self._identity)
                data = b""
            await self._client.refresh_quietly([self.partition.topic])

        appended = await retry(attempt, policy, recover)
        if self._identity.is_idempotent:
            self._sequence = add_to_sequence(self._sequence, batch.count)
        return appended

    def _is_retriable(self, error: Exception) -> bool:
        return is_retriable(error) or self._needs_new_id(error)

    def _needs_new_id(self, error: Exception) -> bool:
        is_gone = isinstance(error, KafkaError) and error.code in PRODUCER_ID_IS_GONE
        return is_gone and self._identity.is_idempotent and self._transactions is None

    async def _build(self, batch: ProducerBatch) -> bytes:
        identity = await self._producer.identity()
        if identity != self._identity:
            self._identity = identity
            self._sequence = 0 if identity.is_idempotent else -1
        settings, transactional = self._producer.settings, self._transactions is not None
        if batch.block is not None:
            seal = batch.block.seal
            return bytes(
                seal(identity.producer_id, identity.epoch, self._sequence, transactional=transactional)
            )
        built = build_batch(
            batch.records,
            compression=settings.codec,
            level=settings.level,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=self._sequence,
            transactional=transactional,
        )
        return bytes(built)


def _is_too_large(error: Exception) -> bool:
    too_large = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
    return isinstance(error, KafkaError) and error.code in too_large
