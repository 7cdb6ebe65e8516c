"""A producer: batches records by partition, sends them to the leaders, tries again when a leader moves.

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

from barnabas.client.cluster import Client, raise_for
from barnabas.client.errors import ClientError
from barnabas.client.lane import Identity, Lane
from barnabas.client.outbox import Delivered, Delivery, PendingBatch
from barnabas.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from barnabas.records.builder import largest_encoded_size
from barnabas.records.compression import CODEC_BY_NAME
from barnabas.records.murmur2 import partition_for_key
from barnabas.records.record import Header, Record
from barnabas.types import TopicPartition

ALL = -1


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    acks: int = ALL
    compression: str = "none"
    level: int | None = None
    batch_bytes: int = (
        64 * 1024
    )  # four times Kafka's, because one batch of a partition is under way at a time
    linger: float = 0.005  # Kafka's linger.ms
    delivery_timeout: float = 120.0  # Kafka's delivery.timeout.ms
    buffer_bytes: int = 32 * 1024 * 1024  # Kafka's buffer.memory

    @property
    def codec(self) -> int:
        return CODEC_BY_NAME[self.compression]


def _frozen(given: bytes | None) -> bytes | None:
    """A caller may go on writing into a bytearray, and the batch is encoded later. Bytes are taken as they are."""
    return given if given is None or type(given) is bytes else bytes(given)


class Producer:
    """`send` waits for the broker; `enqueue` only for room in the buffer, and gives a promise."""

    def __init__(self, client: Client, settings: ProducerSettings | None = None) -> None:
        self.client = client
        self.settings = settings or ProducerSettings()
        self._lanes: dict[TopicPartition, Lane] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._partition_counts: dict[str, int] = {}
        self._sticky: dict[str, tuple[Lane, PendingBatch]] = {}  # the batch that keyless records fill now
        self._buffered = 0
        self._changed = asyncio.Event()  # a batch was finished: there is room, or nothing left to flush
        self._failure: Exception | None = None
        self._closed = False
        self._identity: Identity | None = None
        self._identity_lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(flush=error is None)

    @property
    def buffered_bytes(self) -> int:
        """What is taken in and not yet delivered; never more than `buffer_bytes`."""
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
    ) -> Delivery:
        """Take a record in. Awaiting the result tells where it went; `flush` waits for all of them."""
        if self._closed:
            raise ClientError("the producer is closed")
        now = time.time_ns() // 1_000_000 if timestamp is None else timestamp
        record = Record(0, now, _frozen(key), _frozen(value), tuple(headers))
        size = largest_encoded_size(record)
        while self._buffered and self._buffered + size > self.settings.buffer_bytes:
            await self._next_change()
        count = self._partition_counts.get(topic) or await self._count_partitions(topic)
        lane = self._choose_lane(topic, key, partition, count, size)
        batch, delivery = lane.outbox.add(record, size)
        if key is None and partition is None:
            self._sticky[topic] = (lane, batch)
        self._buffered += size
        lane.wake.set()
        if batch.ready.is_set():
            await asyncio.sleep(0)  # a caller who never waits must not keep full batches from leaving
        return delivery

    async def flush(self) -> None:
        """Wait until every record is in the log, or raise the first error since the last flush."""
        while any(lane.outbox or lane.busy for lane in self._lanes.values()):
            for lane in self._lanes.values():
                lane.outbox.stop_lingering()
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
            for lane in self._lanes.values():
                lane.outbox.fail_all(
                    ClientError(f"the producer was closed before {lane.partition} took the record")
                )

    async def identity(self) -> Identity:
        """The id under which brokers recognise repetitions; none if acks is less than all."""
        if self.settings.acks != ALL:
            return Identity()
        async with self._identity_lock:
            if self._identity is None:
                self._identity = await self._ask_for_identity()
            return self._identity

    def forget_identity(self, identity: Identity) -> None:
        if identity == self._identity:
            self._identity = None

    def note_failure(self, error: Exception) -> None:
        """For the next flush to raise."""
        if self._failure is None:
            self._failure = error

    def batch_finished(self, batch: PendingBatch) -> None:
        self._buffered -= batch.bytes
        self._changed.set()

    async def _ask_for_identity(self) -> Identity:
        async def attempt() -> Identity:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFFFFFF)
            response: InitProducerIdResponse = await self.client.send_to_any(request)
            raise_for(response.error_code, "no producer id was given out")
            return Identity(response.producer_id, response.producer_epoch)

        identity: Identity = await self.client.retry(attempt)
        return identity

    async def _count_partitions(self, topic: str) -> int:
        found = (await self.client.topics([topic], create=True))[topic]
        self._partition_counts[topic] = len(found.partitions)
        return len(found.partitions)

    def _choose_lane(
        self, topic: str, key: bytes | None, partition: int | None, count: int, size: int
    ) -> Lane:
        if partition is not None:
            if not 0 <= partition < count:
                text = f"topic {topic!r} has partitions 0 to {count - 1}; there is no {partition}"
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
            return self._lane(TopicPartition(topic, partition))
        if key is not None:
            return self._lane(TopicPartition(topic, partition_for_key(key, count)))
        return self._sticky_lane(topic, count, size)

    def _sticky_lane(self, topic: str, count: int, size: int) -> Lane:
        """KIP-480: records without a key fill one batch together, then another partition has its turn."""
        current = self._sticky.get(topic)
        if current is not None and current[0].outbox.has_room_in(current[1], size):
            return current[0]
        return self._lane(TopicPartition(topic, random.randrange(count)))

    def _lane(self, partition: TopicPartition) -> Lane:
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = Lane(self, partition)
            self._tasks.append(asyncio.create_task(lane.run(), name=f"produce to {partition}"))
        return lane

    async def _next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
