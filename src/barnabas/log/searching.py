"""Finding places by offset, records by time, and aborted transactions by offset."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from barnabas.errors import KafkaError
from barnabas.files import File
from barnabas.log.scan import SCAN_CHUNK, walk_headers
from barnabas.log.segment import Segment
from barnabas.records.batch import NO_TIMESTAMP, BatchHeader
from barnabas.records.record import iterate_times

_base_offset = attrgetter("base_offset")


class FoundRecord(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


def number_in(segments: list[Segment], offset: int) -> int:
    """The index of the segment that `offset` belongs to."""
    return max(bisect_right(segments, offset, key=_base_offset) - 1, 0)


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
    for position, header in _batches_from(segment, start):
        if header.max_timestamp < timestamp:
            continue
        try:
            for offset, time in _times(segment, position, header):
                if time >= timestamp and offset >= log_start:
                    return FoundRecord(offset, time, header.leader_epoch)
        except KafkaError:
            # Its records cannot be read. The batch says that one of them is as late; nothing else is known of them.
            return FoundRecord(max(header.base_offset, log_start), header.max_timestamp, header.leader_epoch)
    return None


def latest(segments: list[Segment], log_start: int) -> FoundRecord | None:
    """The first of the records with the largest timestamp (KIP-734)."""
    best = max(segments, key=lambda segment: segment.largest_timestamp[0])
    timestamp, last_offset = best.largest_timestamp
    if timestamp == NO_TIMESTAMP:
        return None
    for position, header in _batches_from(best, last_offset):
        for offset, time in _times(best, position, header):
            if time == timestamp and offset >= log_start:
                return FoundRecord(offset, timestamp, header.leader_epoch)
        break  # the index named the batch; a lower record must have been deleted
    return None


def _batches_from(segment: Segment, offset: int) -> Iterator[tuple[int, BatchHeader]]:
    found = segment.locate(offset)
    if found is None:
        return iter(())
    return walk_headers(segment.file, found[0], segment.size, SCAN_CHUNK)


def _times(segment: Segment, position: int, header: BatchHeader) -> Iterator[tuple[int, int]]:
    return iterate_times(segment.file.read(header.size, position), header)


def aborted_between(segments: Iterable[Segment], start: int, end: int) -> Iterator[tuple[int, int]]:
    """(producer id, first offset) of the aborted transactions that a reader of [start, end) may meet."""
    for segment in segments:
        aborted = segment.aborted
        yield from aborted.between(start, end)
        if aborted.is_last_needed_for(end):
            return
