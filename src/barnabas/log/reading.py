"""From an offset to a slice of a segment's file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import EMPTY, FileSlice, Slice
from barnabas.log.segments.segment import Segment
from barnabas.common.types import TopicPartition

if TYPE_CHECKING:
    from barnabas.log.local_log import LocalLog


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
