"""Timestamps of single records: how old the next record of a group is, exactly."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from barnabas.client.cluster import Client
from barnabas.client.errors import ClientError
from barnabas.client.fetching import FetchedPartition, FetchSettings, fetch
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.records.batch import BatchHeader, iterate_headers
from barnabas.records.record import iterate_records
from barnabas.common.types import TopicPartition

AT_ONCE = 4

# Brokers send a whole batch, however small the limit: one partition a request, and no more than that batch.
ONE_BATCH = FetchSettings(max_bytes=1, partition_bytes=1, max_wait=0.0, min_bytes=0)


async def record_times(client: Client, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The timestamp of the first record at or after an offset; a partition that cannot say is left out."""
    limit = asyncio.Semaphore(AT_ONCE)
    found: dict[TopicPartition, int] = {}

    async def look(place: TopicPartition, offset: int) -> None:
        async with limit:
            try:
                moment = await _record_time(client, place, offset)
            except (ClientError, KafkaError):
                return
        if moment is not None:
            found[place] = moment

    await asyncio.gather(*(look(place, offset) for place, offset in offsets.items()))
    return found


async def _record_time(client: Client, place: TopicPartition, offset: int) -> int | None:
    leader = await client.leader(place)
    fetched = (await fetch(client, leader, {place: offset}, ONE_BATCH))[0]
    if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE and fetched.log_start_offset > offset:
        # Retention was faster than the group: it goes on at the oldest record that there is.
        fetched = (await fetch(client, leader, {place: fetched.log_start_offset}, ONE_BATCH))[0]
    return None if fetched.error else _first_time(fetched)


def _first_time(fetched: FetchedPartition) -> int | None:
    for start, header in iterate_headers(fetched.records):
        if header.next_offset > fetched.fetch_offset:
            return _time_in(fetched.records[start : start + header.size], header, fetched.fetch_offset)
    return None


def _time_in(batch: memoryview, header: BatchHeader, offset: int) -> int:
    if header.is_control:
        return header.max_timestamp
    times = (record.timestamp for record in iterate_records(batch, header) if record.offset >= offset)
    return next(times, header.max_timestamp)
