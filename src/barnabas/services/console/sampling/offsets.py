"""Start and end offsets of partitions: ListOffsets to each leader, a thousand partitions per request."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from barnabas.client import Client, ClientError
from barnabas.common.errors import KafkaError
from barnabas.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.services.console.sampling.snapshot import UNKNOWN, Slices
from barnabas.services.console.sampling.topology import TIMEOUT, ClusterTopology, TopicLayout

T = TypeVar("T")

PARTITIONS_A_REQUEST = 1000

Failures = dict[int, str]
"""Error of each broker that did not answer, by id."""

Numbers = Mapping[str, Sequence[int]]
"""By topic, then by partition number."""


class Columns:
    """Numbers by topic and partition; partitions without a new value keep the previous one."""

    def __init__(self, topics: Mapping[str, TopicLayout], before: Numbers) -> None:
        self._topics = topics
        self._before = before
        self._changed: dict[str, list[int]] = {}

    def enter(self, topic: str, partition: int, number: int) -> None:
        column = self._changed.get(topic)
        if column is None:
            layout = self._topics.get(topic)
            if layout is None:
                return
            column = self._changed[topic] = extended(self._before.get(topic, ()), len(layout.partitions))
        if partition < len(column):
            column[partition] = number

    async def numbers(self) -> dict[str, Sequence[int]]:
        """Columns of all topics. An unchanged column stays the same object."""
        slices = Slices()
        found: dict[str, Sequence[int]] = {}
        for name, layout in self._topics.items():
            before = self._before.get(name, ())
            column = tuple(self._changed.get(name) or extended(before, len(layout.partitions)))
            found[name] = before if column == before else column
            await slices.rest()
        return found


def extended(known: Sequence[int], count: int) -> list[int]:
    """Copy with `count` entries; a topic with new partitions keeps its known values."""
    kept = list(known[:count])
    return kept + [UNKNOWN] * (count - len(kept))


async def read_offsets(client: Client, topology: ClusterTopology, timestamp: int, into: Columns) -> Failures:
    """Enter the offsets that leaders return for `timestamp`."""
    by_leader = await _partitions_by_leader(topology)

    async def ask(leader: int, topics: list[TopicPartitions]) -> None:
        slices = Slices()
        for batch in batches(topics, lambda topic: len(topic.partitions), PARTITIONS_A_REQUEST):
            request = _request(batch, timestamp, TIMEOUT)
            _take(await client.send_to_broker(leader, request, TIMEOUT), into)
            await slices.rest()

    return await ask_brokers({leader: ask(leader, topics) for leader, topics in by_leader.items()})


async def ask_brokers(questions: Mapping[int, Awaitable[None]]) -> Failures:
    """Query all brokers concurrently; the failure of one does not affect the others."""
    ids = list(questions)
    ends = await asyncio.gather(*questions.values(), return_exceptions=True)
    failures = {}
    for broker_id, end in zip(ids, ends, strict=True):
        if isinstance(end, (ClientError, KafkaError, OSError)):
            failures[broker_id] = str(end)
        elif isinstance(end, BaseException):
            raise end
    return failures


class TopicPartitions(NamedTuple):
    topic: str
    partitions: list[int]


async def _partitions_by_leader(topology: ClusterTopology) -> dict[int, list[TopicPartitions]]:
    found: dict[int, list[TopicPartitions]] = defaultdict(list)
    slices = Slices()
    for name, layout in topology.topics.items():
        by_leader: dict[int, list[int]] = defaultdict(list)
        for partition in layout.partitions:
            if partition.leader >= 0:
                by_leader[partition.leader].append(partition.index)
        for leader, partitions in by_leader.items():
            found[leader].append(TopicPartitions(name, partitions))
        await slices.rest()
    return found


def _request(topics: list[TopicPartitions], timestamp: int, timeout: float) -> ListOffsetsRequest:
    wanted = [
        ListOffsetsTopic(
            name=name,
            partitions=[ListOffsetsPartition(partition_index=at, timestamp=timestamp) for at in partitions],
        )
        for name, partitions in topics
    ]
    return ListOffsetsRequest(replica_id=-1, topics=wanted, timeout_ms=int(timeout * 1000))


def batches(items: Iterable[T], weight: Callable[[T], int], limit: int) -> Iterator[list[T]]:
    """Batches of items with a total weight of about `limit`; a heavier item is a batch on its own."""
    batch: list[T] = []
    weighs = 0
    for item in items:
        if batch and weighs + weight(item) > limit:
            yield batch
            batch, weighs = [], 0
        batch.append(item)
        weighs += weight(item)
    if batch:
        yield batch


def _take(response: ListOffsetsResponse, into: Columns) -> None:
    for topic in response.topics:
        for partition in topic.partitions:
            if not partition.error_code:
                into.enter(topic.name, partition.partition_index, partition.offset)
