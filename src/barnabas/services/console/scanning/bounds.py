"""From a search to ranges of offsets: what brokers know about partitions and moments."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from barnabas.client.cluster import Client
from barnabas.client.fetching import FetchSettings, fetch
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
from barnabas.services.console.scanning.model import Search, SearchError
from barnabas.services.console.scanning.places import read_places

LATE_MS = 5 * 60_000
"""A record whose timestamp is this much older than that of one before it is still found by a search with `until`."""


class Bounds(NamedTuple):
    """The offsets to read, without partitions where there is nothing, and what people should know about them."""

    ranges: list[OffsetRange]
    notes: list[str]


async def find_bounds(client: Client, search: Search) -> Bounds:
    places = await _partitions(client, search)
    lowest = await beginning_offsets(client, places)
    isolation = READ_COMMITTED if search.committed else READ_UNCOMMITTED
    until = await end_offsets(client, places, isolation)
    first = {place: max(lowest[place], search.first_offset or 0) for place in places}
    if search.until_offset is not None:
        until = {place: min(end, search.until_offset) for place, end in until.items()}
    notes = await _narrow_by_time(client, search, first, until)
    _go_on(search, first, until)
    ranges = [
        OffsetRange(place, first[place], until[place]) for place in places if first[place] < until[place]
    ]
    return Bounds(ranges, notes)


async def _partitions(client: Client, search: Search) -> list[TopicPartition]:
    there = await client.partitions([search.topic])
    if not search.partitions:
        return there
    wanted = set(search.partitions)
    missing = sorted(wanted - {place.partition for place in there})
    if missing:
        raise SearchError(
            f"{search.topic} has no partition {missing[0]}: it has 0 to {len(there) - 1}", "partitions"
        )
    return [place for place in there if place.partition in wanted]


async def _narrow_by_time(
    client: Client, search: Search, first: dict[TopicPartition, int], until: dict[TopicPartition, int]
) -> list[str]:
    """The broker names the first record that is not older; which ones are too new is left to the search."""
    if search.since is not None and first:
        for place, found in (await list_offsets(client, dict.fromkeys(first, search.since))).items():
            first[place] = max(first[place], found.offset if found.offset >= 0 else until[place])
    later = (
        await _too_new(client, search.until + LATE_MS, until) if search.until is not None and until else {}
    )
    unread = sum(until[place] - max(first[place], offset) for place, offset in later.items())
    until.update(later)
    return (
        [f"{unread:,} offsets that came later were not read; empty *Until* to read them."]
        if unread > 0
        else []
    )


async def _too_new(
    client: Client, moment: int, until: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Where what came after a moment begins, as far as that can be known.

    A transaction's marker has the time of the broker. Records whose time was set by their producers, of last year
    perhaps, may come after it: it says nothing.
    """
    found = await list_offsets(client, dict.fromkeys(until, moment))
    later = {place: at.offset for place, at in found.items() if 0 <= at.offset < until[place]}
    markers = await asyncio.gather(*(_is_marker(client, place, offset) for place, offset in later.items()))
    return {place: offset for (place, offset), marks in zip(later.items(), markers, strict=True) if not marks}


async def _is_marker(client: Client, place: TopicPartition, offset: int) -> bool:
    """True for a control batch, and for one that cannot be read."""
    (answer,) = await fetch(
        client, await client.leader(place), {place: offset}, FetchSettings(partition_bytes=1)
    )
    return next((header.is_control for _, header in iterate_headers(answer.records)), True)


def _go_on(search: Search, first: dict[TopicPartition, int], until: dict[TopicPartition, int]) -> None:
    if not search.continue_at:
        return
    places = read_places(search.continue_at)
    for place in list(first):
        at = places.get(place.partition)
        if at is None:
            until[place] = first[place]  # it was read to its end
        elif search.newest_first:
            until[place] = min(until[place], at)
        else:
            first[place] = max(first[place], at)
