"""Where partitions begin and end: each leader is asked for a thousand partitions at a time."""

from __future__ import annotations

import asyncio
from array import array
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from barnabas.client.cluster import Client
from barnabas.client.errors import ClientError
from barnabas.console.sampling.slices import Slices
from barnabas.console.sampling.snapshot import UNKNOWN
from barnabas.console.sampling.topology import TopicLayout, Topology
from barnabas.errors import KafkaError
from barnabas.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

T = TypeVar("T")

PARTITIONS_A_REQUEST = 1000

Failures = dict[int, str]
"""Why a broker did not answer, by its id."""

Offsets = dict[str, "array[int]"]
"""By topic, then by partition number."""


async def known_offsets(topics: Mapping[str, TopicLayout], before: Mapping[str, array[int]]) -> Offsets:
    """A copy of what is known so far, to be overwritten; a topic that has grown keeps what it had."""
    slices = Slices()
    known = {}
    for name, layout in topics.items():
        known[name] = extended(before.get(name), len(layout.partitions))
        await slices.rest()
    return known


def extended(known: array[int] | None, count: int) -> array[int]:
    """A copy with `count` entries."""
    kept = known[:count] if known is not None else array("q")
    return kept + array("q", [UNKNOWN]) * (count - len(kept))


async def read_offsets(client: Client, topology: Topology, moment: int, into: Offsets) -> Failures:
    """Overwrites what leaders answer for `moment`; what they do not answer stays as it was."""
    by_leader = await _partitions_by_leader(topology)

    async def ask(leader: int, topics: list[ListOffsetsTopic]) -> None:
        slices = Slices()
        for request in _requests(topics, moment, client.request_timeout):
            _take(await client.send_to_broker(leader, request), into)
            await slices.rest()

    return await ask_brokers({leader: ask(leader, topics) for leader, topics in by_leader.items()})


async def ask_brokers(questions: Mapping[int, Awaitable[None]]) -> Failures:
    """All at the same time; a broker that does not answer costs its own part only."""
    ids = list(questions)
    ends = await asyncio.gather(*questions.values(), return_exceptions=True)
    failures = {}
    for broker_id, end in zip(ids, ends, strict=True):
        if isinstance(end, (ClientError, KafkaError, OSError)):
            failures[broker_id] = str(end)
        elif isinstance(end, BaseException):
            raise end
    return failures


async def _partitions_by_leader(topology: Topology) -> dict[int, list[ListOffsetsTopic]]:
    found: dict[int, dict[str, ListOffsetsTopic]] = defaultdict(dict)
    slices = Slices()
    for name, layout in topology.topics.items():
        for place in layout.partitions:
            if place.leader >= 0:
                topics = found[place.leader]
                if name not in topics:
                    topics[name] = ListOffsetsTopic(name=name)
                topics[name].partitions.append(ListOffsetsPartition(partition_index=place.index))
        await slices.rest()
    return {leader: list(topics.values()) for leader, topics in found.items()}


def _requests(topics: list[ListOffsetsTopic], moment: int, timeout: float) -> Iterator[ListOffsetsRequest]:
    for batch in batches(topics, lambda topic: len(topic.partitions), PARTITIONS_A_REQUEST):
        for topic in batch:
            for partition in topic.partitions:
                partition.timestamp = moment
        yield ListOffsetsRequest(replica_id=-1, topics=batch, timeout_ms=int(timeout * 1000))


def batches(items: Iterable[T], weight: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Lists of items that weigh about `most` together; an item that is too heavy has one of its own."""
    batch: list[T] = []
    weighs = 0
    for item in items:
        if batch and weighs + weight(item) > most:
            yield batch
            batch, weighs = [], 0
        batch.append(item)
        weighs += weight(item)
    if batch:
        yield batch


def _take(response: ListOffsetsResponse, into: Offsets) -> None:
    for topic in response.topics:
        known = into[topic.name]
        for partition in topic.partitions:
            if not partition.error_code and partition.partition_index < len(known):
                known[partition.partition_index] = partition.offset
