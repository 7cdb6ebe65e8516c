"""Exact lag of a group in seconds, from the timestamps of the records that it reads next."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from heapq import nlargest

import msgspec

from barnabas.client import Client
from barnabas.common.types import TopicPartition
from barnabas.services.console.sampling.end_times import record_times
from barnabas.services.console.sampling.snapshot import GroupSample, GroupTopic

MAX_EXACT_PARTITIONS = 32
READ_TIMEOUT = 2.0


async def exact_group(client: Client, sample: GroupSample, now_ms: int) -> GroupSample:
    """Exact lag of the partitions with the most lag. Other partitions keep estimates, as do all on a timeout."""
    behind = [row for row in sample.partitions() if row.lag]
    worst = nlargest(MAX_EXACT_PARTITIONS, behind, key=lambda row: row.lag or 0)
    wanted = {TopicPartition(row.topic, row.partition): row.committed for row in worst}
    if not wanted:
        return sample
    try:
        async with asyncio.timeout(READ_TIMEOUT):
            found = await record_times(client, wanted)
    except TimeoutError:
        return sample
    topics = tuple(_with_times(topic, found, now_ms) for topic in sample.topics)
    known = [topic.lag_seconds for topic in topics if topic.lag_seconds is not None]
    return msgspec.structs.replace(sample, topics=topics, lag_seconds=max(known, default=None))


def _with_times(topic: GroupTopic, times: Mapping[TopicPartition, int], now_ms: int) -> GroupTopic:
    seconds = []
    for index, estimate in zip(topic.indexes, topic.seconds, strict=True):
        written = times.get(TopicPartition(topic.topic, index))
        seconds.append(estimate if written is None else max(0.0, (now_ms - written) / 1000))
    return msgspec.structs.replace(topic, seconds=tuple(seconds))
