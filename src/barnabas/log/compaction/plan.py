"""What the loop asks of the worker process, and what it hears back."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from barnabas.log.segments.segment import MAX_SEGMENT_BYTES
from barnabas.log.segments.segment_file import MAX_RELATIVE_OFFSET
from barnabas.log.segments.transactions import AbortedTransaction

NO_DATA = -1


class Source(msgspec.Struct, frozen=True, array_like=True):
    """A sealed segment as it was when the plan was made."""

    base_offset: int
    size: int


class ProducerEnd(msgspec.Struct, frozen=True, array_like=True):
    """Where the last thing stands that is known of a producer: its last batch, or else a marker of its epoch."""

    producer_id: int
    last_offset: int  # NO_DATA when only a marker of this epoch is known
    epoch: int


class CompactionPlan(msgspec.Struct, frozen=True, tag="compaction"):
    folder: str
    sources: list[Source]
    """All sealed segments below `upper`."""
    later_segments: list[int]
    """The sealed ones above: transactions that began below may end there."""
    aborted_in_active: list[AbortedTransaction]
    first_dirty: int
    upper: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    producers: list[ProducerEnd]
    key_memory_bytes: int
    bytes_per_second: float

    def ranges(self) -> Iterator[tuple[Source, int]]:
        """The sources, each with the offset at which the next one starts."""
        ends = [source.base_offset for source in self.sources[1:]] + [self.upper]
        return zip(self.sources, ends, strict=True)

    def fits(self, base_offset: int, size: int, end: int) -> bool:
        """May one segment hold that many bytes, and the offsets from its base up to `end`?"""
        # At most one entry of twelve bytes per interval, and the one that ends a time index.
        index_bytes = 12 * (size // self.index_interval_bytes + 2)
        return (
            size <= min(self.segment_bytes, MAX_SEGMENT_BYTES)
            and index_bytes <= self.segment_index_bytes
            and end - 1 - base_offset <= MAX_RELATIVE_OFFSET
        )


class CleanedGroup(msgspec.Struct, frozen=True):
    """Some neighbouring segments, and the size of the `.cleaned` one that is ready to take their place."""

    sources: list[Source]
    size: int


class CompactionResult(msgspec.Struct, frozen=True, tag="compacted"):
    cleaned_upto: int
    """Below, every key stands once. Less than the plan's upper bound when there was no memory for all keys."""
    bytes_read: int
    bytes_kept: int
    records_read: int
    records_kept: int
    seconds: float
    memory_used: float  # part of key_memory_bytes
