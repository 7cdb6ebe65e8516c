"""From an offset to a slice of a segment's file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.segment import Segment
from barnabas.log.slices import EMPTY, FileSlice, Slice

if TYPE_CHECKING:
    from barnabas.log.log import Log


def read_slice(log: Log, offset: int, max_bytes: int, upper_offset: int, at_least_one: bool) -> Slice:
    """See `Log.read`. The tail is found without the index, and its end without looking."""
    log_end = log.log_end_offset
    if not log.log_start_offset <= offset <= log_end:
        raise out_of_range(log, offset)
    if offset >= upper_offset or offset == log_end:
        return EMPTY
    if offset >= log.tail.start:
        segment = log.active
        position, size = log.tail.find(offset, segment.size)
    else:
        found = _locate(log, offset)
        if found is None:
            return EMPTY
        segment, position, size = found
    length = _end_position(log, segment, upper_offset) - position
    if length > max_bytes:
        length = max(max_bytes, size) if at_least_one else (max_bytes if size <= max_bytes else 0)
    return FileSlice(segment.file, position, length) if length > 0 else EMPTY


def _locate(log: Log, offset: int) -> tuple[Segment, int, int] | None:
    """Segment, position and size of the first batch that ends at `offset` or later."""
    with log.disk():
        for segment in log.segments[log.segment_number(offset) :]:
            found = segment.locate(offset)
            if found is not None:
                position, header = found
                return segment, position, header.size
    return None


def _end_position(log: Log, segment: Segment, upper_offset: int) -> int:
    """Where the first batch starts that must not be read any more."""
    if upper_offset >= log.log_end_offset:
        return segment.size
    if segment is log.active and upper_offset >= log.tail.start:
        return log.tail.find(upper_offset, segment.size)[0]
    with log.disk():
        found = segment.locate(upper_offset)
    return found[0] if found is not None else segment.size


def out_of_range(log: Log, offset: int) -> KafkaError:
    return KafkaError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"{log.topic_partition} holds the offsets {log.log_start_offset} to {log.log_end_offset}, not {offset}",
    )
