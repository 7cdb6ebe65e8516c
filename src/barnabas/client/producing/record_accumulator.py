"""Record accumulator: one queue of batches per partition. No I/O."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Generator
from struct import Struct
from typing import Any, NamedTuple

from barnabas.client.producing.batch_sender import Appended
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.records import Record

# -- Partitioner, as Kafka's default -------------------------------------------------------------------

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_SHIFT = 24
_MASK = 0xFFFFFFFF


def choose_partition(topic: str, key: bytes | None, wanted: int | None, count: int) -> int | None:
    """Explicit partition, or the key's; None if the producer may choose."""
    if wanted is None:
        return None if key is None else partition_for_key(key, count)
    if not 0 <= wanted < count:
        text = f"topic {topic!r} has partitions 0 to {count - 1}; there is no {wanted}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return wanted


def murmur2(data: bytes) -> int:
    """The hash as an unsigned number of 32 bits (Java shows the same bits as a signed one)."""
    length = len(data)
    state = (_SEED ^ length) & _MASK
    for (word,) in Struct("<I").iter_unpack(data[: length & ~3]):
        mixed = word * _MULTIPLIER & _MASK
        mixed = (mixed ^ mixed >> _SHIFT) * _MULTIPLIER & _MASK
        state = state * _MULTIPLIER & _MASK ^ mixed
    if tail := data[length & ~3 :]:
        state = (state ^ int.from_bytes(tail, "little")) * _MULTIPLIER & _MASK
    state = (state ^ state >> 13) * _MULTIPLIER & _MASK
    return state ^ state >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class Delivered(NamedTuple):
    """Position of a record. The offset is -1 with acks=0."""

    partition: TopicPartition
    offset: int
    timestamp: int


class Split(NamedTuple):
    """A batch too large for the topic, split in two."""

    first: ProducerBatch
    second: ProducerBatch


class ProducerBatch:
    """Records of one batch. They share a future: one per record would cost more than sending it."""

    __slots__ = ("bytes", "done", "opened", "partition", "ready", "records")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.records: list[Record] = []
        self.bytes = 0
        self.opened = time.monotonic()
        self.ready = asyncio.Event()  # no more records will be added: stop lingering
        self.done: asyncio.Future[Appended | Split] = asyncio.get_running_loop().create_future()

    def resolve(self, appended: Appended) -> None:
        if not self.done.done():
            self.done.set_result(appended)

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # mark as retrieved: a caller that does not await gets it from flush()

    def split(self) -> Split:
        half = len(self.records) // 2
        halves = Split(ProducerBatch(self.partition), ProducerBatch(self.partition))
        halves.first.records, halves.second.records = self.records[:half], self.records[half:]
        self.done.set_result(halves)
        return halves


class RecordDelivery:
    """Awaitable result of one record: its position, or the error."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def __await__(self) -> Generator[Any, None, Delivered]:
        while isinstance(outcome := (yield from asyncio.shield(self._batch.done).__await__()), Split):
            self._follow(outcome)
        offset = outcome.base_offset + self._index if outcome.base_offset >= 0 else -1
        given = self._batch.records[self._index].timestamp
        timestamp = given if outcome.log_append_time < 0 else outcome.log_append_time
        return Delivered(self._batch.partition, offset, timestamp)

    def _follow(self, split: Split) -> None:
        in_first = len(split.first.records)
        if self._index < in_first:
            self._batch = split.first
        else:
            self._batch, self._index = split.second, self._index - in_first


class BatchQueue:
    """Batches of one partition, oldest first; the newest accepts records until full."""

    __slots__ = ("_batch_bytes", "_partition", "_waiting")

    def __init__(self, partition: TopicPartition, batch_bytes: int) -> None:
        self._partition = partition
        self._batch_bytes = batch_bytes
        self._waiting: deque[ProducerBatch] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, record: Record, size: int) -> tuple[ProducerBatch, RecordDelivery]:
        batch = self._waiting[-1] if self._waiting else self._open()
        if batch.bytes and batch.bytes + size > self._batch_bytes:
            batch.ready.set()
            batch = self._open()
        batch.records.append(record)
        batch.bytes += size
        if batch.bytes >= self._batch_bytes:
            batch.ready.set()
        return batch, RecordDelivery(batch, len(batch.records) - 1)

    def has_room_in(self, batch: ProducerBatch, size: int) -> bool:
        """True if a record of this size fits into the batch."""
        return bool(self._waiting) and self._waiting[-1] is batch and batch.bytes + size <= self._batch_bytes

    def oldest(self) -> ProducerBatch:
        return self._waiting[0]

    def take(self) -> ProducerBatch:
        batch = self._waiting.popleft()
        batch.ready.set()
        return batch

    def stop_lingering(self) -> None:
        for batch in self._waiting:
            batch.ready.set()

    def fail_all(self, error: Exception) -> None:
        while self._waiting:
            self._waiting.popleft().fail(error)

    def _open(self) -> ProducerBatch:
        batch = ProducerBatch(self._partition)
        self._waiting.append(batch)
        return batch
