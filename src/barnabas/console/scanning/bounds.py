"""From a search to ranges of offsets: what brokers know about partitions and moments."""

from __future__ import annotations

from barnabas.client.cluster import Client
from barnabas.client.offsets import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    OffsetRange,
    beginning_offsets,
    end_offsets,
    list_offsets,
)
from barnabas.console.scanning.model import Search, SearchError
from barnabas.console.scanning.places import read_places
from barnabas.types import TopicPartition

LATE_MS = 5 * 60_000
"""A record whose timestamp is this much older than that of one before it is still found by a search with `until`."""


async def find_ranges(client: Client, search: Search) -> list[OffsetRange]:
    """The offsets to read, without partitions where there is nothing; in the order of the partitions."""
    places = await _partitions(client, search)
    lowest = await beginning_offsets(client, places)
    isolation = READ_COMMITTED if search.committed else READ_UNCOMMITTED
    ends = await end_offsets(client, places, isolation)
    first = {place: max(lowest[place], search.first_offset or 0) for place in places}
    until = dict(ends)
    if search.until_offset is not None:
        until = {place: min(end, search.until_offset) for place, end in until.items()}
    await _narrow_by_time(client, search, first, until)
    _go_on(search, first, until)
    return [OffsetRange(place, first[place], until[place]) for place in places if first[place] < until[place]]


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
) -> None:
    """The broker names the first record that is not older; records that are not in order are left to the search."""
    if search.since is not None and first:
        for place, found in (await list_offsets(client, dict.fromkeys(first, search.since))).items():
            first[place] = max(first[place], found.offset if found.offset >= 0 else until[place])
    if search.until is not None and until:
        late = dict.fromkeys(until, search.until + LATE_MS)
        for place, found in (await list_offsets(client, late)).items():
            if found.offset >= 0:
                until[place] = min(until[place], found.offset)


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
