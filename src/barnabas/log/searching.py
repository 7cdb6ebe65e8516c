"""Finding places by offset, records by time, and aborted transactions by offset."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from barnabas.common.files import File, ReadableFile
from barnabas.log.segments.scan import SCAN_CHUNK, walk_headers
from barnabas.log.segments.segment import Segment
from barnabas.log.segments.segment_list import number_in
from barnabas.records.batch import NO_TIMESTAMP, BatchHeader
from barnabas.records.record import InvalidRecords, iterate_times

RECORDS_BETWEEN_BREATHS = 500
BREATH_SECONDS = 0.0001


class FoundRecord(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


def place_in(segments: list[Segment], offset: int) -> tuple[File, int]:
    """Where a search for `offset` starts to walk."""
    segment = segments[number_in(segments, offset)]
    return segment.file, segment.offset_index.lookup(max(offset - segment.base_offset, 0))


def first_at_or_after(segments: list[Segment], timestamp: int, log_start: int) -> FoundRecord | None:
    """The first record at or above `log_start` that is as late as `timestamp`."""
    for segment in segments:
        if segment.largest_timestamp[0] >= timestamp:
            found = _first_in_segment(segment, timestamp, log_start)
            if found is not None:
                return found
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
    """The same among the batches in [position, end) of a file."""
    for place, header in walk_headers(file, position, end, SCAN_CHUNK):
        if header.max_timestamp < timestamp:
            continue
        found = _first_in_batch(file, place, header, timestamp, log_start)
        if found is not None:
            return found
    return None


def _first_in_batch(
    file: ReadableFile, position: int, header: BatchHeader, timestamp: int, log_start: int
) -> FoundRecord | None:
    try:
        for offset, found in _times(file, position, header):
            if found >= timestamp and offset >= log_start:
                return FoundRecord(offset, found, header.leader_epoch)
    except InvalidRecords:
        # Nobody can read it, so nobody knows better than its header. Looking for others must go on working.
        return FoundRecord(max(header.base_offset, log_start), header.max_timestamp, header.leader_epoch)
    return None


def latest(segments: list[Segment], log_start: int) -> FoundRecord | None:
    """The first of the records with the largest timestamp (KIP-734)."""
    best = max(segments, key=lambda segment: segment.largest_timestamp[0])
    timestamp, last_offset = best.largest_timestamp
    if timestamp == NO_TIMESTAMP:
        return None
    found = best.locate(last_offset)
    # The index named the batch; a lower record must have been deleted.
    return _first_in_batch(best.file, *found, timestamp, log_start) if found is not None else None


def _times(file: ReadableFile, position: int, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """As `iterate_times`, with a short breath now and then: threads that look up would keep the GIL from the loop."""
    for number, found in enumerate(iterate_times(file.read(header.size, position), header), 1):
        yield found
        if not number % RECORDS_BETWEEN_BREATHS:
            time.sleep(BREATH_SECONDS)


def aborted_between(segments: Iterable[Segment], start: int, end: int) -> Iterator[tuple[int, int]]:
    """(producer id, first offset) of the aborted transactions that a reader of [start, end) may meet."""
    for segment in segments:
        aborted = segment.aborted
        yield from aborted.between(start, end)
        if aborted.is_last_needed_for(end):
            return
