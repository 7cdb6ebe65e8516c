"""Record accumulator: one queue of batches per partition. No I/O."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Generator
from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple

from barnabas.client.producing.batch_sender import BatchPosition
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.records import TIMESTAMP, Block, Record

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
    return _partition_of(key, partition_count) if len(key) <= CACHED_KEY else _hashed(key, partition_count)


def _hashed(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


CACHED_KEY = 64  # bytes; hashing a key in Python takes microseconds, and keys repeat
_partition_of = lru_cache(16_384)(_hashed)


class Delivered(NamedTuple):
    """Position of a record. The offset is -1 with acks=0."""

    partition: TopicPartition
    offset: int
    timestamp: int


class SplitBatch(NamedTuple):
    """A batch too large for the topic, split in two."""

    first: ProducerBatch
    second: ProducerBatch


class ProducerBatch:
    """Records of one batch, or a block encoded from columns.

    Records share a future: one per record would cost more than sending it.
    """

    __slots__ = ("block", "bytes", "done", "opened", "partition", "ready", "records")

    def __init__(
        self, partition: TopicPartition, loop: asyncio.AbstractEventLoop, block: Block | None = None
    ) -> None:
        self.partition = partition
        self.records: list[Record] = []
        self.block = block
        self.bytes = 0 if block is None else len(block.data)
        self.opened = time.monotonic()
        self.ready = block is not None  # no more records will be added: stop lingering
        self.done: asyncio.Future[BatchPosition | SplitBatch] = loop.create_future()

    @property
    def count(self) -> int:
        return len(self.records) if self.block is None else self.block.count

    def resolve(self, appended: BatchPosition) -> None:
        if not self.done.done():
            self.done.set_result(appended)

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # mark as retrieved: a caller that does not await gets it from flush()

    def split(self) -> SplitBatch:
        half, loop = len(self.records) // 2, self.done.get_loop()
        halves = SplitBatch(ProducerBatch(self.partition, loop), ProducerBatch(self.partition, loop))
        halves.first.records, halves.second.records = self.records[:half], self.records[half:]
        self.done.set_result(halves)
        return halves

    def __await__(self) -> Generator[Any, None, BatchPosition]:
        """Base offset of a block, which is never split."""
        appended = yield from asyncio.shield(self.done).__await__()
        assert isinstance(appended, BatchPosition)
        return appended


class RecordDelivery:
    """Awaitable result of one record: its position, or the error."""

    __slots__ = ("batch", "index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self.batch = batch
        self.index = index

    def __await__(self) -> Generator[Any, None, Delivered]:
        while True:
            outcome = yield from asyncio.shield(self.batch.done).__await__()
            if not isinstance(outcome, SplitBatch):
                return self._delivered(outcome)
            self._follow(outcome)

    @property
    def is_batch_ready(self) -> bool:
        """True if the batch of the record accepts no more."""
        return self.batch.ready

    @property
    def done(self) -> bool:
        """True if the result is known; from any thread."""
        return self.batch.done.done()

    @property
    def delivered(self) -> Delivered | None:
        """The position if it is known already; None to await it. From any thread."""
        done = self.batch.done
        if not done.done() or done.cancelled() or done.exception() is not None:
            return None
        outcome = done.result()
        return None if isinstance(outcome, SplitBatch) else self._delivered(outcome)

    @property
    def partition(self) -> TopicPartition:
        return self.batch.partition

    def _delivered(self, appended: BatchPosition) -> Delivered:
        offset = appended.base_offset + self.index if appended.base_offset >= 0 else -1
        value = self.batch.records[self.index][TIMESTAMP]
        timestamp = value if appended.log_append_time < 0 else appended.log_append_time
        return Delivered(self.batch.partition, offset, timestamp)

    def _follow(self, split: SplitBatch) -> None:
        in_first = len(split.first.records)
        if self.index < in_first:
            self.batch = split.first
        else:
            self.batch, self.index = split.second, self.index - in_first


class BatchQueue:
    """Batches of one partition, oldest first; the newest accepts records until full. The producer's lock guards it."""

    __slots__ = ("_batch_bytes", "_loop", "_partition", "_waiting")

    def __init__(self, partition: TopicPartition, batch_bytes: int, loop: asyncio.AbstractEventLoop) -> None:
        self._partition = partition
        self._batch_bytes = batch_bytes
        self._loop = loop
        self._waiting: deque[ProducerBatch] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, record: Record, size: int) -> ProducerBatch:
        waiting = self._waiting
        batch = waiting[-1] if waiting and not waiting[-1].ready else self._open()
        if batch.bytes and batch.bytes + size > self._batch_bytes:
            batch.ready = True
            batch = self._open()
        batch.records.append(record)
        batch.bytes += size
        if batch.bytes >= self._batch_bytes:
            batch.ready = True
        return batch

    def add_block(self, block: Block) -> ProducerBatch:
        self.stop_lingering()
        batch = ProducerBatch(self._partition, self._loop, block)
        self._waiting.append(batch)
        return batch

    def has_room_in(self, batch: ProducerBatch, size: int) -> bool:
        """True if a record of this size fits into the batch."""
        is_open = bool(self._waiting) and self._waiting[-1] is batch and not batch.ready
        return is_open and batch.bytes + size <= self._batch_bytes

    def oldest(self) -> ProducerBatch:
        return self._waiting[0]

    def take(self) -> ProducerBatch:
        batch = self._waiting.popleft()
        batch.ready = True
        return batch

    def stop_lingering(self) -> None:
        for batch in self._waiting:
            batch.ready = True

    def take_all(self) -> list[ProducerBatch]:
        taken = list(self._waiting)
        for batch in taken:
            batch.ready = True  # a producer may still hold the batch that it fills
        self._waiting.clear()
        return taken

    def _open(self) -> ProducerBatch:
        batch = ProducerBatch(self._partition, self._loop)
        self._waiting.append(batch)
        return batch
