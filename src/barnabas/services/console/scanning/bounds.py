"""Resolves a search to offset ranges, by ListOffsets."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from barnabas.client import Client, FetchSettings, fetch
from barnabas.client.offsets import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    OffsetRange,
    beginning_offsets,
    end_offsets,
    list_offsets,
)
from barnabas.common.types import TopicPartition
from barnabas.records.batch import iterate_headers
from barnabas.services.console.scanning.continuation import decode_positions
from barnabas.services.console.scanning.model import Search, SearchError

LATE_MS = 5 * 60_000
"""A search with `until` still finds records up to this much older than an earlier record of their partition."""


class ScanBounds(NamedTuple):
    """Offset ranges to read, without empty partitions, and notes for the user."""

    ranges: list[OffsetRange]
    notes: list[str]


async def find_bounds(client: Client, search: Search) -> ScanBounds:
    partitions = await _partitions(client, search)
    lowest = await beginning_offsets(client, partitions)
    isolation = READ_COMMITTED if search.committed else READ_UNCOMMITTED
    until = await end_offsets(client, partitions, isolation)
    first = {tp: max(lowest[tp], search.first_offset or 0) for tp in partitions}
    if search.until_offset is not None:
        until = {tp: min(end, search.until_offset) for tp, end in until.items()}
    notes = await _narrow_by_time(client, search, first, until)
    _go_on(search, first, until)
    ranges = [OffsetRange(tp, first[tp], until[tp]) for tp in partitions if first[tp] < until[tp]]
    return ScanBounds(ranges, notes)


async def _partitions(client: Client, search: Search) -> list[TopicPartition]:
    there = await client.partitions([search.topic])
    if not search.partitions:
        return there
    wanted = set(search.partitions)
    missing = sorted(wanted - {tp.partition for tp in there})
    if missing:
        raise SearchError(
            f"{search.topic} has no partition {missing[0]}: it has 0 to {len(there) - 1}", "partitions"
        )
    return [tp for tp in there if tp.partition in wanted]


async def _narrow_by_time(
    client: Client, search: Search, first: dict[TopicPartition, int], until: dict[TopicPartition, int]
) -> list[str]:
    """Narrow the ranges in place; return notes. Records that are too new within a range are left to the filter."""
    if search.since is not None and first:
        for tp, found in (await list_offsets(client, dict.fromkeys(first, search.since))).items():
            first[tp] = max(first[tp], found.offset if found.offset >= 0 else until[tp])
    later = (
        await _too_new(client, search.until + LATE_MS, until) if search.until is not None and until else {}
    )
    unread = sum(until[tp] - max(first[tp], offset) for tp, offset in later.items())
    until.update(later)
    return (
        [f"{unread:,} offsets that came later were not read; empty *Until* to read them."]
        if unread > 0
        else []
    )


async def _too_new(
    client: Client, timestamp: int, until: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """First offset at or after a timestamp, for partitions where it bounds the scan.

    A transaction marker carries the broker's clock, and records with older producer timestamps may follow it:
    partitions where the offset is that of a marker are left out.
    """
    found = await list_offsets(client, dict.fromkeys(until, timestamp))
    later = {tp: at.offset for tp, at in found.items() if 0 <= at.offset < until[tp]}
    markers = await asyncio.gather(*(_is_marker(client, tp, offset) for tp, offset in later.items()))
    return {tp: offset for (tp, offset), marks in zip(later.items(), markers, strict=True) if not marks}


async def _is_marker(client: Client, tp: TopicPartition, offset: int) -> bool:
    """True for a control batch and for an unreadable one."""
    (answer,) = await fetch(client, await client.leader(tp), {tp: offset}, FetchSettings(partition_bytes=1))
    return next((header.is_control for _, header in iterate_headers(answer.records)), True)


def _go_on(search: Search, first: dict[TopicPartition, int], until: dict[TopicPartition, int]) -> None:
    if not search.continue_at:
        return
    positions = decode_positions(search.continue_at)
    for tp in list(first):
        at = positions.get(tp.partition)
        if at is None:
            until[tp] = first[tp]  # already read to its end
        elif search.newest_first:
            until[tp] = min(until[tp], at)
        else:
            first[tp] = max(first[tp], at)
