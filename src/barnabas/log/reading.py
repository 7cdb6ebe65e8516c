"""From an offset to a slice of a segment's file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import EMPTY, File, FileSlice, ReadableFile, Slice
from barnabas.common.types import TopicPartition
from barnabas.log.segments.scan import SCAN_CHUNK, BadBatch, walk_headers
from barnabas.log.segments.segment import Segment
from barnabas.log.segments.segment_list import number_in
from barnabas.records.batch import NO_TIMESTAMP, BatchHeader
from barnabas.records.record import InvalidRecords, iterate_times

if TYPE_CHECKING:
    from barnabas.log.local_log import LocalLog


# -- Finding places by offset, records by time, and aborted transactions by offset ---------------------

RECORDS_BETWEEN_BREATHS = 500
YIELD_SECONDS = 0.0001


class FoundRecord(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


def position_in(segments: list[Segment], offset: int) -> tuple[File, int]:
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
    for batch_position, header in walk_headers(file, position, end, SCAN_CHUNK):
        if header.max_timestamp < timestamp:
            continue
        found = _first_in_batch(file, batch_position, header, timestamp, log_start)
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
            time.sleep(YIELD_SECONDS)


def aborted_between(segments: Iterable[Segment], start: int, end: int) -> Iterator[tuple[int, int]]:
    """(producer id, first offset) of the aborted transactions that a reader of [start, end) may meet."""
    for segment in segments:
        aborted = segment.aborted
        yield from aborted.between(start, end)
        if aborted.is_last_needed_for(end):
            return


class RemoteOffset(KafkaError):  # noqa: N818 - where to look, not an error
    """The offset may be read, but lies below the local start: in a remote segment.

    A consumer's fetch reads it there; a follower is told so, and begins at the tiered end (KIP-405).
    """

    def __init__(self, partition: TopicPartition, offset: int, local_start: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
            f"offset {offset} of {partition} is in a remote segment: this disk begins at {local_start}",
        )
        self.offset = offset


def read_slice(log: LocalLog, offset: int, max_bytes: int, upper_offset: int, at_least_one: bool) -> Slice:
    """See `LocalLog.read`. The tail is found without the index, and its end without looking."""
    offsets, segments = log.offsets, log.segments
    if not offsets.local_start <= offset <= offsets.end:
        raise out_of_range(log, offset)
    written = offsets.written
    if upper_offset > written:
        upper_offset = written
    if offset >= upper_offset:
        return EMPTY
    if offset >= segments.tail.start:
        segment = segments.active
        position, size = segments.tail.find(offset, segment.size)
    else:
        found = _locate(log, offset)
        if found is None:
            return EMPTY
        segment, position, size = found
    end = segment.size if upper_offset == written else _end_position(log, segment, upper_offset)
    length = end - position
    if length > max_bytes:
        length = max(max_bytes, size) if at_least_one else (max_bytes if size <= max_bytes else 0)
    return FileSlice(segment.file, position, length) if length > 0 else EMPTY


def _locate(log: LocalLog, offset: int) -> tuple[Segment, int, int] | None:
    """Segment, position and size of the first batch that ends at `offset` or later."""
    with log.storage_errors():
        for segment in log.segments.since(offset):
            found = segment.locate(offset)
            if found is not None:
                position, header = found
                return segment, position, header.size
    return None


def _end_position(log: LocalLog, segment: Segment, upper_offset: int) -> int:
    """Where the first batch starts that must not be read any more."""
    segments = log.segments
    if segment is segments.active and upper_offset >= segments.tail.start:
        return segments.tail.find(upper_offset, segment.size)[0]
    with log.storage_errors():
        found = segment.locate(upper_offset)
    return found[0] if found is not None else segment.size


def out_of_range(log: LocalLog, offset: int) -> KafkaError:
    if log.offsets.start <= offset < log.offsets.local_start:
        return RemoteOffset(log.topic_partition, offset, log.offsets.local_start)
    return KafkaError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"{log.topic_partition} holds the offsets {log.offsets.start} to {log.offsets.end}, not {offset}",
    )


# -- Reading what is committed: a slice of the log, and which transactions a reader must leave out of it

MAX_LISTED = 200
"""More aborted transactions than this are worth a look at the batches of the slice."""
SHORT_SLICE = 64 << 10
"""At most some 800 batches of the smallest size, which are looked at in about a millisecond."""

_first_offset = itemgetter(1)


def read_committed(
    log: LocalLog, offset: int, max_bytes: int, upper_offset: int, at_least_one: bool
) -> tuple[Slice, list[tuple[int, int]]]:
    """As `LocalLog.read`, with (producer id, first offset) of aborted transactions in the slice, by first offset."""
    data = read_slice(log, offset, max_bytes, upper_offset, at_least_one)
    if not isinstance(data, FileSlice) or (
        offset >= log.segments.tail.start and log.segments.active.aborts_nothing
    ):
        return data, []
    with log.storage_errors():
        found = list(islice(_aborted(log, offset, upper_offset), MAX_LISTED + 1))
        if len(found) > MAX_LISTED:
            data = read_slice(log, offset, min(max_bytes, SHORT_SLICE), upper_offset, at_least_one)
            between = partial(_aborted, log)
            found = aborted_in(between, offset, data) if isinstance(data, FileSlice) else []
    found.sort(key=_first_offset)
    return data, found


def _aborted(log: LocalLog, start: int, end: int) -> Iterator[tuple[int, int]]:
    return aborted_between(log.segments.since(start), start, end)


def aborted_in(
    between: Callable[[int, int], Iterator[tuple[int, int]]], offset: int, data: FileSlice
) -> list[tuple[int, int]]:
    """Those of the aborted transactions that have a batch in this slice."""
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
        return  # the last batch is cut off by the limit
