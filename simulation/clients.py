"""Clients of the simulated cluster: a producer that records acknowledged values, a consumer that records all reads."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Protocol

from barnabas.cluster.image import MetadataImage
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.records.batch import BatchHeader, iterate_headers
from barnabas.records.builder import build_batch
from barnabas.records.record import Record, iterate_records
from simulation.loop import START_MS
from simulation.network import CLIENT, Network

TOPIC = "orders"
GROUP = "readers"
FIRST_PRODUCER_ID = 1 << 40  # far above the ids that a coordinator allocates
RETRIABLE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


class Violation(Exception):  # noqa: N818 - the finding that the simulator searches for
    """A violated invariant."""


class Client:
    def __init__(self, network: Network, index: int, image: Callable[[], MetadataImage], rng: random.Random):
        self.index = index
        self.is_to_stop = False
        self._network = network
        self._image = image
        self._rng = rng

    @property
    def parts(self) -> tuple[Network, int, Callable[[], MetadataImage], random.Random]:
        """Constructor arguments for another client of this partition."""
        return self._network, self.index, self._image, self._rng

    def _any_broker(self) -> int:
        """The leader according to the possibly stale metadata of a random broker; in 10% of cases, any broker."""
        servers = self._network.servers
        known = self._rng.choice(list(servers.values())).image if servers else self._image()
        state = known.partition(TOPIC, self.index)
        if state is None or self._rng.random() < 0.1:
            return self._rng.choice((1, 2, 3, 4))  # there may be only three
        return state.leader

    def _topic_id(self) -> bytes:
        return self._image().topics[TOPIC].topic_id

    def _group_coordinator(self) -> int:
        state = self._image().partition(CONSUMER_OFFSETS, 0)
        return state.leader if state is not None else 1

    async def committed_offset(self, group_id: str = GROUP) -> int | None:
        """Committed offset of the group for this partition, or -1 if there is none; None if the coordinator returns an
        error, for example while a transaction has a pending commit."""
        topics = [OffsetFetchRequestTopics(topic_id=self._topic_id(), partition_indexes=[self.index])]
        try:
            groups = [OffsetFetchRequestGroup(group_id, topics=topics)]
            request = OffsetFetchRequest(groups=groups, require_stable=True)
            response = await self._network.send(CLIENT, self._group_coordinator(), request)
        except KafkaError:
            return None
        group = response.groups[0]
        if group.error_code or group.topics[0].partitions[0].error_code:
            return None
        return int(group.topics[0].partitions[0].committed_offset)


class Acknowledging(Protocol):
    """Client that tracks the highest acknowledged offset of a partition."""

    index: int
    last_acknowledged: int


class Writer(Client):
    """Idempotent producer with acks=all and one batch in flight; record N has the value N."""

    first_producer_id = FIRST_PRODUCER_ID

    def __init__(self, network: Network, index: int, image: Callable[[], MetadataImage], rng: random.Random):
        super().__init__(network, index, image, rng)
        self.acknowledged: dict[int, int] = {}
        """Value by offset."""
        self.last_acknowledged = -1
        self._next = 0

    async def run(self) -> None:
        while not self.is_to_stop:
            await self.write(1)
            await asyncio.sleep(self._rng.choice((0.0, 0.01, 0.05, 0.3)))

    async def write(self, count: int) -> None:
        for _ in range(count):
            await self._write(self._next)
            self._next += 1

    def _timestamp(self, value: int) -> int:
        return START_MS

    async def _write(self, value: int) -> None:
        topic = self._image().topics[TOPIC]
        batch = build_batch(
            [Record(0, self._timestamp(value), None, str(value).encode())],
            producer_id=self.first_producer_id + self.index,
            producer_epoch=0,
            base_sequence=value,
        )
        while True:
            data = PartitionProduceData(index=self.index, records=bytes(batch))
            request = ProduceRequest(
                acks=-1,
                timeout_ms=1500,
                topic_data=[TopicProduceData(topic_id=topic.topic_id, partition_data=[data])],
            )
            if await self._send(request, value):
                return
            await asyncio.sleep(self._rng.choice((0.02, 0.1, 0.2)))

    async def _send(self, request: ProduceRequest, value: int) -> bool:
        target = self._any_broker()
        try:
            response = await self._network.send(CLIENT, target, request)
        except KafkaError:
            return False
        answer = response.responses[0].partition_responses[0]
        if answer.error_code == ErrorCode.NONE:
            self.acknowledged[answer.base_offset] = value
            self.last_acknowledged = max(self.last_acknowledged, answer.base_offset)
            return True
        if answer.error_code not in RETRIABLE and not self._was_replaced(target):
            raise Violation(f"value {value} of partition {self.index}: {ErrorCode(answer.error_code).name}")
        return False

    def _was_replaced(self, target: int) -> bool:
        """True if the target has lost leadership: a stale leader may lack the preceding values."""
        state = self._image().partition(TOPIC, self.index)
        return state is None or state.leader != target


class Committer(Client):
    """Standalone consumer that commits increasing offsets of its partition."""

    def __init__(self, network: Network, index: int, image: Callable[[], MetadataImage], rng: random.Random):
        super().__init__(network, index, image, rng)
        self.acknowledged = -1  # the committed offset of a group without commits

    async def run(self) -> None:
        offset = 1
        while not self.is_to_stop:
            if await self._commit(offset):
                self.acknowledged = offset
                offset += 1
            await asyncio.sleep(self._rng.choice((0.05, 0.3)))

    async def _commit(self, offset: int) -> bool:
        partition = OffsetCommitRequestPartition(self.index, offset, committed_metadata="")
        topic = OffsetCommitRequestTopic(topic_id=self._topic_id(), partitions=[partition])
        try:
            request = OffsetCommitRequest(group_id=GROUP, topics=[topic])
            response = await self._network.send(CLIENT, self._group_coordinator(), request)
        except KafkaError:
            return False
        error = ErrorCode(response.topics[0].partitions[0].error_code)
        if error and error not in RETRIABLE:
            raise Violation(f"offset {offset} of partition {self.index} cannot be committed: {error.name}")
        return not error


class Reader(Client):
    """Consumer that reads from the leader and expects every record it has read to stay unchanged."""

    isolation_level = 0

    def __init__(self, network: Network, index: int, image: Callable[[], MetadataImage], rng: random.Random):
        super().__init__(network, index, image, rng)
        self.seen: dict[int, bytes] = {}
        self.position = 0
        self.epoch = 0

    async def run(self) -> None:
        while True:
            await self.read_once(self._any_broker())
            await asyncio.sleep(0.1)

    def _any_broker(self) -> int:
        """Adopt the highest leader epoch in any broker's metadata, as real consumers do (KIP-320)."""
        for server in self._network.servers.values():
            state = server.image.partition(TOPIC, self.index)
            if state is not None:
                self.epoch = max(self.epoch, state.leader_epoch)
        return super()._any_broker()

    async def read_once(self, leader: int) -> bool:
        """Fetch once; return True if the leader returned records."""
        topic = self._image().topics[TOPIC]
        partition = FetchPartition(
            partition=self.index,
            current_leader_epoch=self.epoch,
            fetch_offset=self.position,
            partition_max_bytes=1 << 20,
        )
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=self.isolation_level,
            topics=[FetchTopic(topic_id=topic.topic_id, partitions=[partition])],
        )
        try:
            response = await self._network.send(CLIENT, leader, request)
        except KafkaError:
            return False
        if not response.responses:
            return False
        return self._take(response.responses[0].partitions[0], partition.fetch_offset)

    def _take(self, data: PartitionData, partition: int) -> bool:
        is_next = partition == self.position  # False if another response came first or the reader was reset
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and is_next:
            self._miss(data.log_start_offset)
        if data.error_code or not data.records:
            return False
        for start, header in iterate_headers(data.records):
            if not header.is_control and not self._is_hidden(header, data):
                batch = memoryview(data.records)[start : start + header.size]
                for record in iterate_records(batch, header):
                    self._check_value(record.offset, bytes(record.value or b""))
            if is_next:
                self.position = header.next_offset
        return True

    def _miss(self, log_start: int) -> None:
        """Handle an out-of-range position; the leader's log starts at `log_start`."""
        raise Violation(f"offset {self.position} of partition {self.index} existed and is lost")

    def _is_hidden(self, header: BatchHeader, data: PartitionData) -> bool:
        return False

    def _check_value(self, offset: int, value: bytes) -> None:
        before = self.seen.setdefault(offset, value)
        if before != value:
            raise Violation(
                f"offset {offset} of partition {self.index} was {before!r} and has become {value!r}"
            )
