"""Log start, end and timestamp lookups of partitions (ListOffsets)."""

from __future__ import annotations

import asyncio
import datetime
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from barnabas.client.cluster import Client, raise_for
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

# Special timestamps of ListOffsets.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4  # KIP-405: records below it are only in the object store
LATEST_TIERED = -5  # KIP-1005: the last offset in the object store

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


class OffsetAndTimestamp(NamedTuple):
    offset: int  # -1: no record is that new
    timestamp: int
    leader_epoch: int


class OffsetRange(NamedTuple):
    """Offsets [first, until) of one partition. Compaction may have left fewer records."""

    tp: TopicPartition
    first: int
    until: int

    @property
    def size(self) -> int:
        return self.until - self.first


async def beginning_offsets(
    client: Client, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    answers = await list_offsets(client, dict.fromkeys(partitions, EARLIEST))
    return {partition: answer.offset for partition, answer in answers.items()}


async def end_offsets(
    client: Client, partitions: Iterable[TopicPartition], isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, int]:
    """High watermark, or last stable offset for read_committed."""
    answers = await list_offsets(client, dict.fromkeys(partitions, LATEST), isolation)
    return {partition: answer.offset for partition, answer in answers.items()}


async def list_offsets(
    client: Client, timestamps: Mapping[TopicPartition, int], isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """First record at or after a timestamp (epoch milliseconds) or a special timestamp, by partition."""
    topics = {partition.topic for partition in timestamps}
    found: dict[TopicPartition, OffsetAndTimestamp] = await client.retry(
        lambda: list_offsets_once(client, timestamps, isolation), topics
    )
    return found


async def list_offsets_once(
    client: Client, timestamps: Mapping[TopicPartition, int], isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """`list_offsets` without retries."""
    by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
    for partition, timestamp in timestamps.items():
        by_leader[await client.leader(partition)][partition] = timestamp
    requests = (_ask(client, leader, part, isolation) for leader, part in by_leader.items())
    return {partition: answer for found in await asyncio.gather(*requests) for partition, answer in found}


async def _ask(
    client: Client, leader: int, timestamps: Mapping[TopicPartition, int], isolation: int
) -> list[tuple[TopicPartition, OffsetAndTimestamp]]:
    response = await client.send_to_broker(leader, offsets_request(client, timestamps, isolation))
    return [(tp, _checked(tp.topic, answer)) for tp, answer in answers_in(response)]


def offsets_request(
    client: Client, timestamps: Mapping[TopicPartition, int], isolation: int = READ_UNCOMMITTED
) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for (name, index), timestamp in timestamps.items():
        topic = topics.setdefault(name, ListOffsetsTopic(name=name))
        topic.partitions.append(ListOffsetsPartition(partition_index=index, timestamp=timestamp))
    timeout_ms = int(client.request_timeout * 1000)
    return ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=list(topics.values()), timeout_ms=timeout_ms
    )


def answers_in(
    response: ListOffsetsResponse,
) -> Iterator[tuple[TopicPartition, ListOffsetsPartitionResponse]]:
    for topic in response.topics:
        for answer in topic.partitions:
            yield TopicPartition(topic.name, answer.partition_index), answer


def _checked(topic: str, answer: ListOffsetsPartitionResponse) -> OffsetAndTimestamp:
    raise_for(answer.error_code, f"offsets of {topic}-{answer.partition_index}")
    return OffsetAndTimestamp(answer.offset, answer.timestamp, answer.leader_epoch)


# -- Start positions: beginning, end, an offset, the last N records, or a timestamp --------------------

# Shorter numbers are offsets. As milliseconds this is the year 1973; as an offset, a hundred thousand million.
FIRST_TIMESTAMP = 100_000_000_000


@dataclass(frozen=True, slots=True)
class Start:
    kind: Literal["beginning", "end", "offset", "last", "time"]
    value: int = 0


def parse_start(text: str) -> Start:
    """`beginning`, `end`, `120`, `-10`, `1700000000000`, `2026-11-15T08:30`; ValueError for other texts."""
    word = text.strip().lower()
    if word in ("beginning", "earliest", "start"):
        return Start("beginning")
    if word in ("end", "latest"):
        return Start("end")
    if word.removeprefix("-").isdecimal():
        return _parse_number(int(word))
    try:
        timestamp = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(
            f"{text!r} is not a valid start position: write beginning, end, an offset such as 120, -10 for the last "
            "ten records, or a time such as 2026-11-15T08:30 or 1700000000000 (milliseconds)"
        ) from None
    return Start("time", int(timestamp.timestamp() * 1000))  # without a time zone, local time


def _parse_number(number: int) -> Start:
    if number < 0:
        return Start("last", -number)
    if number >= FIRST_TIMESTAMP:
        return Start("time", number)
    return Start("offset", number)


async def resolve_start(
    client: Client, partitions: Sequence[TopicPartition], start: Start
) -> dict[TopicPartition, int]:
    """Start offset of each partition."""
    if start.kind == "offset":
        return dict.fromkeys(partitions, start.value)
    if start.kind == "time":
        return await _resolve_time(client, partitions, start.value)
    if start.kind == "last":
        return await _resolve_last(client, partitions, start.value)
    word = EARLIEST if start.kind == "beginning" else LATEST
    answers = await list_offsets(client, dict.fromkeys(partitions, word))
    return {partition: answer.offset for partition, answer in answers.items()}


async def _resolve_time(
    client: Client, partitions: Sequence[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    found = await list_offsets(client, dict.fromkeys(partitions, timestamp))
    ends = await end_offsets(client, partitions)
    return {
        partition: answer.offset if answer.offset >= 0 else ends[partition]
        for partition, answer in found.items()
    }


async def _resolve_last(
    client: Client, partitions: Sequence[TopicPartition], count: int
) -> dict[TopicPartition, int]:
    """The last `count` offsets of each partition, as kcat counts them."""
    first = await beginning_offsets(client, partitions)
    ends = await end_offsets(client, partitions)
    return {partition: max(first[partition], ends[partition] - count) for partition in partitions}
