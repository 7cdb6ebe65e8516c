"""Map offsets to ranges of segments, for readers without a broker. Pure, except for reading manifest pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.client.offsets import OffsetRange
from barnabas.common.files import Bytes
from barnabas.common.types import TopicPartition
from barnabas.log.segments import IndexFileError, TimeIndex
from barnabas.records import InvalidRecords, iterate_times
from barnabas.records.batch import iterate_headers
from barnabas.tiering.objects.manifest import SegmentEntry, entry_key
from barnabas.tiering.objects.manifest_file import read_page
from barnabas.tiering.objects.segment_object import (
    TIME_INDEX,
    BadObjectError,
    read_chunk,
    read_footer,
    read_section,
)
from barnabas.tiering.reading.bucket_topics import BucketPartition
from barnabas.tiering.stores.store import ObjectReader


class SegmentRange(NamedTuple):
    """Offsets [first, until) of one segment."""

    tp: TopicPartition
    first: int
    until: int
    key: str
    entry: SegmentEntry


async def entries_between(
    reader: ObjectReader, partition: BucketPartition, first: int, until: int
) -> list[SegmentEntry]:
    """Return the entries that overlap [first, until). Reads only the required pages."""
    folder, manifest = partition
    found: list[SegmentEntry] = []
    for page in manifest.pages:
        if page.base < until and first < page.end:
            found += await read_page(reader, folder, page)
    found += manifest.entries
    return [entry for entry in found if entry.base < until and first < entry.end]


def segment_ranges(
    partition: BucketPartition, entries: Iterable[SegmentEntry], offset_range: OffsetRange
) -> list[SegmentRange]:
    """Split a range of offsets by segment."""
    tp, first, until = offset_range
    return [
        SegmentRange(
            tp, max(first, entry.base), min(until, entry.end), entry_key(partition.folder, entry), entry
        )
        for entry in entries
        if entry.base < until and first < entry.end
    ]


def divide_by_size(
    offset_range: OffsetRange, entries: Iterable[SegmentEntry], max_bytes: int
) -> list[OffsetRange]:
    """Split a range at segment boundaries into ranges of at most `max_bytes`, or one segment."""
    found: list[OffsetRange] = []
    first, size = offset_range.first, 0
    for entry in entries:
        if size and size + entry.size > max_bytes and first < entry.base < offset_range.until:
            found.append(OffsetRange(offset_range.tp, first, entry.base))
            first, size = entry.base, 0
        size += entry.size
    return [*found, OffsetRange(offset_range.tp, first, offset_range.until)]


# -- by time ----------------------------------------------------------------------------------------------


async def offset_for_timestamp(
    reader: ObjectReader, partition: BucketPartition, timestamp: int
) -> int | None:
    """Return the first offset with at least this timestamp."""
    folder, manifest = partition
    for part in manifest.parts:
        if part.largest_timestamp < timestamp:
            continue
        entries = [part] if isinstance(part, SegmentEntry) else await read_page(reader, folder, part)
        for entry in entries:
            if entry.largest_timestamp >= timestamp and entry.end > manifest.log_start:
                key = entry_key(folder, entry)
                found = await _first_in_segment(reader, key, entry, timestamp, manifest.log_start)
                if found is not None:
                    return found
    return None


async def _first_in_segment(
    reader: ObjectReader, key: str, entry: SegmentEntry, timestamp: int, log_start: int
) -> int | None:
    footer = await read_footer(reader, key, entry)
    try:
        times = TimeIndex.from_bytes(await read_section(reader, key, footer, TIME_INDEX))
    except IndexFileError as error:
        raise BadObjectError(f"{key}: an index is damaged: {error}") from error
    start = max(entry.base + times.lookup(timestamp), log_start)
    for number in range(footer.chunk_at(start), len(footer.chunks)):
        found = _first_in_chunk(await read_chunk(reader, key, footer, number), timestamp, log_start)
        if found is not None:
            return found if found < entry.end else None
    return None


def _first_in_chunk(data: Bytes, timestamp: int, log_start: int) -> int | None:
    """Search as `log.searching` does in files: an unreadable batch counts with the timestamp of its header."""
    view = memoryview(data)
    for start, header in iterate_headers(view):
        if header.max_timestamp < timestamp or header.last_offset < log_start:
            continue
        try:
            for offset, found in iterate_times(view[start : start + header.size], header):
                if found >= timestamp and offset >= log_start:
                    return offset
        except InvalidRecords:
            return max(header.base_offset, log_start)
    return None
