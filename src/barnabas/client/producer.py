"""Producer: batches records by partition, sends them to the leaders and retries after leader changes.

It is idempotent unless acks is less than all: a record is in the log once, however often it had to be sent.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from barnabas.client.cluster import Client
from barnabas.client.errors import ClientError
from barnabas.client.producing.batch_sender import ALL
from barnabas.client.producing.partition_sender import PartitionSender
from barnabas.client.producing.producer_ids import NO_PRODUCER_ID, ProducerIdentity, init_producer_id
from barnabas.client.producing.record_accumulator import (
    Delivered,
    ProducerBatch,
    RecordDelivery,
    choose_partition,
)
from barnabas.common.types import TopicPartition
from barnabas.records import Header, Record, largest_encoded_size
from barnabas.records.compression import CODEC_BY_NAME


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    acks: int = ALL
    compression: str = "none"
    level: int | None = None
    batch_bytes: int = 64 * 1024  # four times Kafka's, because one batch per partition is in flight at a time
    linger: float = 0.005  # Kafka's linger.ms
    delivery_timeout: float = 120.0  # Kafka's delivery.timeout.ms
    buffer_bytes: int = 32 * 1024 * 1024  # Kafka's buffer.memory

    @property
    def codec(self) -> int:
        return CODEC_BY_NAME[self.compression]


def _frozen(given: bytes | None) -> bytes | None:
    """Copy mutable buffers: the caller may modify a bytearray before the batch is encoded."""
    return given if given is None or type(given) is bytes else bytes(given)


class Producer:
    """`send` waits for the acknowledgement; `enqueue` only for buffer space, and returns an awaitable."""

    def __init__(self, client: Client, settings: ProducerSettings | None = None) -> None:
        self.client = client
        self.settings = settings or ProducerSettings()
        self._senders: dict[TopicPartition, PartitionSender] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._partition_counts: dict[str, int] = {}
        self._sticky: dict[
            str, tuple[PartitionSender, ProducerBatch]
        ] = {}  # the batch that keyless records fill now
        self._buffered = 0
        self._changed = asyncio.Event()  # a batch was finished: there is room, or nothing left to flush
        self._failure: Exception | None = None
        self._closed = False
        self._identity: ProducerIdentity | None = None
        self._identity_lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(flush=error is None)

    @property
    def buffered_bytes(self) -> int:
        """Bytes accepted and not yet delivered; at most `buffer_bytes`."""
        return self._buffered

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Iterable[Header] = (),
    ) -> Delivered:
        """Send one record and wait until the broker has it."""
        return await (
            await self.enqueue(topic, value, key, partition=partition, timestamp=timestamp, headers=headers)
        )

    async def enqueue(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Iterable[Header] = (),
    ) -> RecordDelivery:
        """Buffer a record. Await the result for its offset; `flush` waits for all records."""
        if self._closed:
            raise ClientError("the producer is closed")
        now = time.time_ns() // 1_000_000 if timestamp is None else timestamp
        record = Record(0, now, _frozen(key), _frozen(value), tuple(headers))
        size = largest_encoded_size(record)
        while self._buffered and self._buffered + size > self.settings.buffer_bytes:
            await self._next_change()
        count = self._partition_counts.get(topic) or await self._count_partitions(topic)
        sender = self._choose(topic, key, partition, count, size)
        batch, delivery = sender.queue.add(record, size)
        if key is None and partition is None:
            self._sticky[topic] = (sender, batch)
        self._buffered += size
        sender.wake.set()
        if batch.ready.is_set():
            await asyncio.sleep(0)  # yield, so that full batches are sent even if the caller never waits
        return delivery

    async def flush(self) -> None:
        """Wait until every record is in the log, or raise the first error since the last flush."""
        while any(sender.queue or sender.busy for sender in self._senders.values()):
            for sender in self._senders.values():
                sender.queue.stop_lingering()
            await self._next_change()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def close(self, *, flush: bool = True) -> None:
        self._closed = True
        try:
            if flush:
                await self.flush()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._tasks.clear()
            for sender in self._senders.values():
                sender.queue.fail_all(
                    ClientError(f"the producer was closed before {sender.partition} took the record")
                )

    async def identity(self) -> ProducerIdentity:
        """Producer id for idempotence; none if acks is less than all."""
        if self.settings.acks != ALL:
            return NO_PRODUCER_ID
        async with self._identity_lock:
            if self._identity is None:
                self._identity = await init_producer_id(self.client)
            return self._identity

    def forget_identity(self, identity: ProducerIdentity) -> None:
        if identity == self._identity:
            self._identity = None

    def note_failure(self, error: Exception) -> None:
        """Remember an error for the next flush to raise."""
        if self._failure is None:
            self._failure = error

    def batch_finished(self, batch: ProducerBatch) -> None:
        self._buffered -= batch.bytes
        self._changed.set()

    async def _count_partitions(self, topic: str) -> int:
        found = (await self.client.topics([topic], create=True))[topic]
        self._partition_counts[topic] = len(found.partitions)
        return len(found.partitions)

    def _choose(
        self, topic: str, key: bytes | None, wanted: int | None, count: int, size: int
    ) -> PartitionSender:
        partition = choose_partition(topic, key, wanted, count)
        if partition is None:
            return self._choose_sticky(topic, count, size)
        return self._sender(TopicPartition(topic, partition))

    def _choose_sticky(self, topic: str, count: int, size: int) -> PartitionSender:
        """KIP-480: records without a key fill one batch together, then another partition has its turn."""
        current = self._sticky.get(topic)
        if current is not None and current[0].queue.has_room_in(current[1], size):
            return current[0]
        return self._sender(TopicPartition(topic, random.randrange(count)))

    def _sender(self, partition: TopicPartition) -> PartitionSender:
        sender = self._senders.get(partition)
        if sender is None:
            sender = self._senders[partition] = PartitionSender(self, partition)
            self._tasks.append(asyncio.create_task(sender.run(), name=f"produce to {partition}"))
        return sender

    async def _next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
