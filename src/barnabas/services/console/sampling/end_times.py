"""Estimates when a record was written from the history of its partition's end offsets.

End offsets of a topic are sampled when they change, together with the last time before the change, so an idle topic has
one sample. Between two samples the end is assumed to move evenly. When a history is full, every second sample of its
older half is dropped: resolution decreases with age.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from barnabas.client import Client, ClientError, FetchedPartition, FetchSettings, fetch
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.records import iterate_records
from barnabas.records.batch import BatchHeader, iterate_headers

# -- Timestamps of single records: exact age of the next record of a group -----------------------------

AT_ONCE = 4

# Brokers return at least one batch whatever the limit, so each request fetches one batch of one partition.
ONE_BATCH = FetchSettings(max_bytes=1, partition_bytes=1, max_wait=0.0, min_bytes=0)


async def record_times(client: Client, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Timestamp of the first record at or after each offset, without partitions that fail."""
    limit = asyncio.Semaphore(AT_ONCE)
    found: dict[TopicPartition, int] = {}

    async def look(tp: TopicPartition, offset: int) -> None:
        async with limit:
            try:
                timestamp = await _record_time(client, tp, offset)
            except (ClientError, KafkaError):
                return
        if timestamp is not None:
            found[tp] = timestamp

    await asyncio.gather(*(look(tp, offset) for tp, offset in offsets.items()))
    return found


async def _record_time(client: Client, tp: TopicPartition, offset: int) -> int | None:
    leader = await client.leader(tp)
    fetched = (await fetch(client, leader, {tp: offset}, ONE_BATCH))[0]
    if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE and fetched.log_start_offset > offset:
        # Retention passed the group's position: its next record is at the log start offset.
        fetched = (await fetch(client, leader, {tp: fetched.log_start_offset}, ONE_BATCH))[0]
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


MAX_NOTES = 64


class EndSample(NamedTuple):
    ms: int
    ends: Sequence[int]


class KnownRecord(NamedTuple):
    """Offset and timestamp of a fetched record."""

    offset: int
    ms: int


class EndTimes:
    """End offset history of all topics of a cluster."""

    def __init__(self) -> None:
        self._notes: dict[str, list[EndSample]] = {}
        self._seen_ms: dict[str, int] = {}
        self._records: dict[TopicPartition, KnownRecord] = {}

    def note(self, topic: str, ms: int, ends: Sequence[int]) -> None:
        notes = self._notes.setdefault(topic, [])
        if not notes or notes[-1].ends != ends:
            if notes and self._seen_ms[topic] > notes[-1].ms:
                notes.append(EndSample(self._seen_ms[topic], notes[-1].ends))
            notes.append(EndSample(ms, ends))
            if len(notes) > MAX_NOTES:
                del notes[1 : MAX_NOTES // 2 : 2]
        self._seen_ms[topic] = ms

    def note_record(self, tp: TopicPartition, offset: int, ms: int) -> None:
        self._records[tp] = KnownRecord(offset, ms)

    def keep(self, topics: Collection[str]) -> None:
        """Drop the history of all other topics."""
        for removed in self._notes.keys() - topics:
            del self._notes[removed], self._seen_ms[removed]
        self._records = {tp: known for tp, known in self._records.items() if tp.topic in topics}

    def forget(self, topic: str) -> None:
        """Drop the history of a topic that was recreated."""
        self._notes.pop(topic, None)
        self._seen_ms.pop(topic, None)
        for tp in [tp for tp in self._records if tp.topic == topic]:
            del self._records[tp]

    def written_ms(self, topic: str, partition: int, offset: int) -> float | None:
        """Estimated write time of `offset`; None if it precedes the history or is not written yet."""
        before: tuple[int, int] | None = None
        known = self._records.get(TopicPartition(topic, partition))
        if known is not None and known.offset <= offset:
            before = (known.offset, known.ms)
        for ms, end in self._ends_of(topic, partition):
            if end > offset:
                return None if before is None else _between(before, (end, ms), offset)
            if before is None or end >= before[0]:
                before = (end, ms)
        return None

    def _ends_of(self, topic: str, partition: int) -> list[tuple[int, int]]:
        notes = self._notes.get(topic, ())
        return [(ms, ends[partition]) for ms, ends in notes if partition < len(ends) and ends[partition] >= 0]


def _between(before: tuple[int, int], after: tuple[int, int], offset: int) -> float:
    """Time at which the end passed `offset`, interpolated linearly; both samples are (end, ms)."""
    (low, since), (high, until) = before, after
    return since + (until - since) * (offset - low) / (high - low)
