"""Searches in the segments of a log: positions by offset, records by timestamp, aborted transactions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from barnabas.common.files import File, FileSlice, ReadableFile
from barnabas.log.segments.scan import SCAN_CHUNK, BadBatch, walk_headers
from barnabas.log.segments.segment import Segment
from barnabas.log.segments.segment_list import number_in
from barnabas.records import InvalidRecords, iterate_times
from barnabas.records.batch import NO_TIMESTAMP, BatchHeader

# -- Positions by offset, records by timestamp, aborted transactions by offset -------------------------

RECORDS_BETWEEN_YIELDS = 500
YIELD_SECONDS = 0.0001


class FoundRecord(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


def position_in(segments: list[Segment], offset: int) -> tuple[File, int]:
    """(file, position) where a scan for `offset` starts."""
    segment = segments[number_in(segments, offset)]
    return segment.file, segment.offset_index.lookup(max(offset - segment.base_offset, 0))


def first_at_or_after(segments: list[Segment], timestamp: int, log_start: int) -> FoundRecord | None:
    """First record at or above `log_start` with this timestamp or a later one."""
    for segment in segments:
        if segment.largest_timestamp[0] >= timestamp:
            record = _first_in_segment(segment, timestamp, log_start)
            if record is not None:
                return record
    return None


def _first_in_segment(segment: Segment, timestamp: int, log_start: int) -> FoundRecord | None:
    start = max(segment.base_offset + segment.time_index.lookup(timestamp), log_start)
    located = segment.locate(start)
    if located is None:
        return None
    return first_in_file(segment.file, located[0], segment.size, timestamp, log_start)


def first_in_file(
    file: ReadableFile, position: int, end: int, timestamp: int, log_start: int
) -> FoundRecord | None:
    """Like `first_at_or_after`, among the batches in [position, end) of a file."""
    for at, header in walk_headers(file, position, end, SCAN_CHUNK):
        if header.max_timestamp < timestamp:
            continue
        record = _first_in_batch(file, at, header, timestamp, log_start)
        if record is not None:
            return record
    return None


def _first_in_batch(
    file: ReadableFile, position: int, header: BatchHeader, timestamp: int, log_start: int
) -> FoundRecord | None:
    try:
        for offset, record_timestamp in _times(file, position, header):
            if record_timestamp >= timestamp and offset >= log_start:
                return FoundRecord(offset, record_timestamp, header.leader_epoch)
    except InvalidRecords:
        # The records are unreadable. Use the header, so that lookups by timestamp still work.
        return FoundRecord(max(header.base_offset, log_start), header.max_timestamp, header.leader_epoch)
    return None


def latest(segments: list[Segment], log_start: int) -> FoundRecord | None:
    """First record with the largest timestamp (KIP-734)."""
    best = max(segments, key=lambda segment: segment.largest_timestamp[0])
    timestamp, last_offset = best.largest_timestamp
    if timestamp == NO_TIMESTAMP:
        return None
    batch = best.locate(last_offset)
    # The batch comes from the index; a missing one was deleted.
    return _first_in_batch(best.file, *batch, timestamp, log_start) if batch is not None else None


def _times(file: ReadableFile, position: int, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Like `iterate_times`, with short sleeps: lookups in threads would keep the GIL from the event loop."""
    for number, entry in enumerate(iterate_times(file.read(header.size, position), header), 1):
        yield entry
        if not number % RECORDS_BETWEEN_YIELDS:
            time.sleep(YIELD_SECONDS)


def aborted_between(segments: Iterable[Segment], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield (producer id, first offset) of the aborted transactions that overlap [start, end)."""
    for segment in segments:
        aborted = segment.aborted
        yield from aborted.between(start, end)
        if aborted.is_last_needed_for(end):
            return


# -- Aborted transactions in a slice of the log --------------------------------------------------------

MAX_LISTED = 200
"""If more aborted transactions overlap, only those with a batch in the slice are returned."""
SHORT_SLICE = 64 << 10
"""At most 800 of the smallest batches, whose headers are read in about a millisecond."""


def aborted_in(
    between: Callable[[int, int], Iterator[tuple[int, int]]], offset: int, data: FileSlice
) -> list[tuple[int, int]]:
    """Aborted transactions with a batch in the slice."""
    producers, end = set(), offset
    for header in _headers(data):
        end = header.next_offset
        if header.is_transactional:
            producers.add(header.producer_id)
    return [entry for entry in between(offset, end) if entry[0] in producers]


def _headers(data: FileSlice) -> Iterator[BatchHeader]:
    try:
        for _, header in walk_headers(data.file, data.position, data.position + data.length, SHORT_SLICE):
            yield header
    except BadBatch:
        return  # the last batch is truncated by the limit
