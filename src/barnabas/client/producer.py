"""Producer: batches records by partition, sends them to the leaders and retries after leader changes.

It is idempotent unless acks is less than all: a record is in the log once, however often it had to be sent.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from barnabas.client.cluster import Client
from barnabas.client.errors import BufferFullError, ClientError
from barnabas.client.producing.batch_sender import ALL
from barnabas.client.producing.partition_sender import PartitionSender
from barnabas.client.producing.producer_ids import NO_PRODUCER_ID, ProducerIdentity, init_producer_id
from barnabas.client.producing.record_accumulator import (
    Delivered,
    ProducerBatch,
    RecordDelivery,
    choose_partition,
)
from barnabas.client.producing.transaction_manager import TransactionManager
from barnabas.common.retry import UNLIMITED, Deadline
from barnabas.common.types import TopicPartition
from barnabas.records import MAX_RECORD_OVERHEAD, Block, Header, Record, largest_encoded_size
from barnabas.records.compression import CODEC_BY_NAME

METADATA_MAX_AGE = 300.0  # Kafka's metadata.max.age.ms
MAX_WAIT_SECONDS = 3600.0  # between two checks of an unlimited deadline

Partitioner = Callable[[str, bytes | None, int], int | None]
"""Partition of a record by topic, key and partition count; None for the default."""


class ChosenPartition(int):
    """A partition that the partitioner or the key has chosen."""


ANY_PARTITION = ChosenPartition(-1)
"""The partition whose batch keyless records fill."""


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    acks: int = ALL
    compression: str = "none"
    level: int | None = None
    batch_bytes: int = 64 * 1024  # four times Kafka's, because one batch per partition is in flight at a time
    linger: float = 0.005  # Kafka's linger.ms
    delivery_timeout: float = 120.0  # Kafka's delivery.timeout.ms
    buffer_bytes: int = 32 * 1024 * 1024  # Kafka's buffer.memory
    max_block: float = UNLIMITED  # Kafka's max.block.ms
    idempotent: bool = True
    partitioner: Partitioner | None = None

    @property
    def codec(self) -> int:
        return CODEC_BY_NAME[self.compression]


def _frozen(given: bytes | None) -> bytes | None:
    """Copy mutable buffers: the caller may modify a bytearray before the batch is encoded."""
    return given if given is None or type(given) is bytes else bytes(given)


class Producer:
    """`send` waits for the acknowledgement; `enqueue` only for buffer space, and returns an awaitable.

    `append` never waits, and may be called by any thread.
    """

    def __init__(
        self,
        client: Client,
        settings: ProducerSettings | None = None,
        transactions: TransactionManager | None = None,
    ) -> None:
        self.client = client
        self.settings = settings or ProducerSettings()
        self.transactions = transactions
        self.lock = threading.Lock()  # guards the queues and the count of buffered bytes
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
        given = tuple(headers)
        deadline = Deadline(self.settings.max_block)
        if topic not in self._partition_counts:
            await self._count_partitions(topic)
        chosen = self.choose(topic, key, partition)
        assert chosen is not None
        while True:
            delivery = self._append(topic, value, key, chosen, timestamp, given, is_loop=True)
            if delivery is not None:
                break
            await self._wait_for_room(deadline)
        if delivery.is_batch_ready or not delivery.index:
            await asyncio.sleep(0)  # yield, so that full batches are sent even if the caller never waits
        return delivery

    def choose(self, topic: str, key: bytes | None, partition: int | None) -> ChosenPartition | None:
        """Choose the partition of a record, once: a partitioner may count calls. None without metadata of the topic."""
        if type(partition) is ChosenPartition:
            return partition
        count = self._partition_counts.get(topic)
        if count is None:
            return None
        if partition is None and self.settings.partitioner is not None:
            partition = self.settings.partitioner(topic, key, count)
        chosen = choose_partition(topic, key, partition, count)
        return ANY_PARTITION if chosen is None else ChosenPartition(chosen)

    def append(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        chosen: ChosenPartition,
        timestamp: int | None = None,
        headers: tuple[Header, ...] = (),
    ) -> RecordDelivery | None:
        """Buffer a record, from any thread; None if that has to wait for room, as `enqueue` does."""
        return self._append(topic, value, key, chosen, timestamp, headers, is_loop=False)

    def append_value(self, topic: str, value: bytes) -> RecordDelivery | None:
        """Add a value to the batch that keyless records fill now, from any thread; None: `append` chooses a batch.

        The usual case of `append`, without the calls, which would take half of the time of `send`.
        """
        current = self._sticky.get(topic)
        if current is None or self.settings.partitioner is not None:
            return None
        self._check_open()
        batch, size = current[1], MAX_RECORD_OVERHEAD + len(value)
        # Not a Record: collections of garbage skip plain tuples, and would take half of the time of `send`.
        record: Any = (0, time.time_ns() // 1_000_000, None, value, ())
        with self.lock:
            filled, buffered = batch.bytes + size, self._buffered + size
            if batch.ready or filled >= self.settings.batch_bytes or buffered > self.settings.buffer_bytes:
                return None
            index = len(batch.records)
            batch.records.append(record)
            batch.bytes = filled
            self._buffered = buffered
        return RecordDelivery(batch, index)

    async def enqueue_block(self, block: Block) -> ProducerBatch:
        """Buffer an encoded block. Await the result for its base offset."""
        deadline, size = Deadline(self.settings.max_block), len(block.data)
        while self._is_full(size):
            await self._wait_for_room(deadline)
        self._check_open()
        sender = self._sender(block.tp)
        with self.lock:
            batch = sender.queue.add_block(block)
            self._buffered += size
        sender.wake.set()
        return batch

    async def flush(self) -> None:
        """Wait until every record is in the log, or raise the first error since the last flush."""
        while any(sender.queue or sender.busy for sender in self._senders.values()):
            with self.lock:
                for sender in self._senders.values():
                    sender.queue.stop_lingering()
            for sender in self._senders.values():
                sender.wake.set()
            await self._next_change()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def discard(self, reason: str) -> None:
        """Fail the records that are still buffered, and wait for those in flight."""
        self._fail_buffered(reason)
        while any(sender.busy for sender in self._senders.values()):
            await self._next_change()
        self._failure = None

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
            self._fail_buffered("the producer was closed before {} took the record")

    async def identity(self) -> ProducerIdentity:
        """Producer id for idempotence; none if acks is less than all."""
        if self.transactions is not None:
            return self.transactions.identity
        if self.settings.acks != ALL or not self.settings.idempotent:
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
        with self.lock:
            self._buffered -= batch.bytes
        self._changed.set()

    async def partition_count(self, topic: str) -> int:
        return self._partition_counts.get(topic) or await self._count_partitions(topic)

    # -- appending ----------------------------------------------------------------------------------

    def _append(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        chosen: ChosenPartition,
        timestamp: int | None,
        headers: tuple[Header, ...],
        *,
        is_loop: bool,
    ) -> RecordDelivery | None:
        self._check_open()
        now = time.time_ns() // 1_000_000 if timestamp is None else timestamp
        record = Record(0, now, _frozen(key), _frozen(value), headers)
        size = largest_encoded_size(record)
        with self.lock:
            if self._is_full(size):
                return None
            sender = self._choose_sender(topic, chosen, size, is_loop=is_loop)
            if sender is None:
                return None
            batch = sender.queue.add(record, size)
            index = len(batch.records) - 1
            if chosen is ANY_PARTITION:
                self._sticky[topic] = (sender, batch)
            self._buffered += size
        if not index or batch.ready:
            self._notify(sender)
        return RecordDelivery(batch, index)

    def _check_open(self) -> None:
        if self._closed:
            raise ClientError("the producer is closed")
        if self.transactions is not None:
            self.transactions.check_open()

    def _is_full(self, size: int) -> bool:
        return bool(self._buffered) and self._buffered + size > self.settings.buffer_bytes

    def _choose_sender(
        self, topic: str, partition: int, size: int, *, is_loop: bool
    ) -> PartitionSender | None:
        """KIP-480: records without a key fill one batch together, then another partition has its turn.

        None if a sender must be created, which another thread than the loop's cannot do.
        """
        if partition is ANY_PARTITION:
            current = self._sticky.get(topic)
            if current is not None and current[0].queue.has_room_in(current[1], size):
                return current[0]
            partition = random.randrange(self._partition_counts[topic])
        tp = TopicPartition(topic, partition)
        return self._sender(tp) if is_loop else self._senders.get(tp)

    def _notify(self, sender: PartitionSender) -> None:
        if threading.get_ident() == sender.thread:
            sender.wake.set()
        else:
            sender.loop.call_soon_threadsafe(sender.wake.set)

    def _sender(self, partition: TopicPartition) -> PartitionSender:
        sender = self._senders.get(partition)
        if sender is None:
            if not self._tasks:
                self._tasks.append(asyncio.create_task(self._recount()))
            partition = partition._replace(partition=int(partition.partition))  # reports have a plain int
            sender = self._senders[partition] = PartitionSender(self, partition)
            self._tasks.append(asyncio.create_task(sender.run(), name=f"produce to {partition}"))
        return sender

    def _fail_buffered(self, reason: str) -> None:
        for sender in self._senders.values():
            with self.lock:
                batches = sender.queue.take_all()
                self._buffered -= sum(batch.bytes for batch in batches)
            for batch in batches:
                batch.fail(ClientError(reason.format(sender.partition)))
        self._changed.set()

    # -- metadata and waiting -----------------------------------------------------------------------

    async def _count_partitions(self, topic: str) -> int:
        found = (await self.client.topics([topic], create=True))[topic]
        self._partition_counts[topic] = len(found.partitions)
        return len(found.partitions)

    async def _recount(self) -> None:
        """Notice new partitions."""
        while True:
            await asyncio.sleep(METADATA_MAX_AGE)
            await self.client.refresh_quietly(self._partition_counts)
            for topic, state in self.client.metadata.topics.items():
                if topic in self._partition_counts and state.partitions:
                    self._partition_counts[topic] = len(state.partitions)

    async def _wait_for_room(self, deadline: Deadline) -> None:
        try:
            await asyncio.wait_for(self._next_change(), min(deadline.remaining, MAX_WAIT_SECONDS))
        except TimeoutError:
            if deadline.passed:
                size = self.settings.buffer_bytes // 1024
                raise BufferFullError(
                    f"the {size} KiB of the buffer were full for {self.settings.max_block:g} s: the brokers take "
                    "records more slowly than they are sent. Send less, or raise buffer_memory or max_block_ms"
                ) from None

    async def _next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
