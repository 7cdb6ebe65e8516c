"""Builds the object of one segment piece by piece, without loading the whole segment."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Protocol, TypeVar

from fastcrc.crc32 import iscsi as crc32c

from barnabas.common.types import uuid_to_text
from barnabas.log.segments import BadBatch, IndexFileError, OffsetIndex, walk_headers
from barnabas.log.tiering import SealedSegment
from barnabas.tiering.objects.layout import PartitionFolder
from barnabas.tiering.objects.manifest import SegmentEntry
from barnabas.tiering.objects.segment_object import (
    ABORTED,
    CHUNK_BYTES,
    OFFSET_INDEX,
    PRODUCERS,
    TIME_INDEX,
    BadObjectError,
    Chunk,
    Footer,
    Section,
    entry_of,
)

PIECE_BYTES = CHUNK_BYTES
"""Bytes of a segment in memory at a time. Each piece needs a thread switch here and in the store client, and each
switch takes the GIL from the loop, so large pieces are better."""

T = TypeVar("T")


class InThread(Protocol):
    """Runs blocking work in a thread: `ThreadBackground.call`, `asyncio.to_thread`."""

    async def __call__(self, work: Callable[[], T]) -> T: ...


async def at_once(work: Callable[[], T]) -> T:
    """Run the work inline, for simulations."""
    return work()


class SegmentBuild:
    """Builds one object, deterministically. `entry` is available after the last piece."""

    def __init__(self, folder: PartitionFolder, segment: SealedSegment, leader_epoch: int, name: str) -> None:
        self._folder = folder
        self._segment = segment
        self._leader_epoch = leader_epoch
        self._name = name
        self._index: OffsetIndex | None = None
        self.chunks: list[Chunk] = []
        self.entry: SegmentEntry | None = None

    async def pieces(self, in_thread: InThread) -> AsyncGenerator[bytes]:
        """Yield pieces of at most PIECE_BYTES, read on demand. BadObjectError if the segment is damaged."""
        chunks = self.chunks = []
        start, size = 0, len(self._segment.data)
        while start < size:
            end, base, piece, crc = await in_thread(partial(self._begin_chunk, start))
            yield piece
            for position in range(start + PIECE_BYTES, end, PIECE_BYTES):  # only for a huge batch
                piece, crc = await in_thread(
                    partial(self._read, position, min(position + PIECE_BYTES, end), crc)
                )
                yield piece
            chunks.append(Chunk(start, base, crc))
            start = end
        for part in self._ending(tuple(chunks)):
            for position in range(0, len(part), PIECE_BYTES):
                yield part[position : position + PIECE_BYTES]

    # -- in a thread --------------------------------------------------------------------------------

    def _begin_chunk(self, start: int) -> tuple[int, int, bytes, int]:
        """Return the end of the chunk that begins at `start`, its first offset, its first piece and the CRC of that."""
        end, base = self._find_chunk(start)
        return end, base, *self._read(start, min(start + PIECE_BYTES, end), 0)

    def _find_chunk(self, start: int) -> tuple[int, int]:
        """Return the end of the chunk that begins at `start`, and its first offset."""
        segment, size = self._segment, len(self._segment.data)
        try:
            base = self._check_start(start)
            if size - start <= CHUNK_BYTES:
                return self._check_end(start), base
            return self._last_boundary(start, start + CHUNK_BYTES), base
        except BadBatch as bad:
            raise BadObjectError(f"{segment.data.file.path} is damaged: {bad}") from bad

    def _check_start(self, start: int) -> int:
        segment = self._segment
        file, origin = segment.data.file, segment.data.position
        _, header = next(walk_headers(file, origin + start, origin + len(segment.data)))
        # The first segment of a partition begins at the log start, which may be inside a batch.
        first = header.last_offset if start == 0 else header.base_offset
        if not segment.base <= first < segment.end:
            raise BadObjectError(f"{file.path} has offset {header.base_offset} at position {origin + start}")
        return header.base_offset

    def _check_end(self, start: int) -> int:
        """Verify that no batch exceeds the end offset; return the size of the data."""
        segment, size = self._segment, len(self._segment.data)
        origin = segment.data.position
        for _, header in walk_headers(segment.data.file, origin + self._indexed(start, size), origin + size):
            if header.next_offset > segment.end:
                raise BadObjectError(f"{segment.data.file.path} has records after offset {segment.end}")
        return size

    def _last_boundary(self, start: int, limit: int) -> int:
        """Return the last batch boundary up to `limit`; the end of the first batch if that is larger."""
        segment = self._segment
        origin, size = segment.data.position, len(segment.data)
        boundary = start
        for position, _ in walk_headers(
            segment.data.file, origin + self._indexed(start, limit), origin + size
        ):
            if position - origin > limit and boundary > start:
                break
            boundary = position - origin
        return boundary if boundary > start else size

    def _indexed(self, start: int, limit: int) -> int:
        """Return a batch boundary in [start, limit], as close to `limit` as the index allows."""
        if self._index is None:
            try:
                self._index = OffsetIndex.from_bytes(self._segment.offset_index, len(self._segment.data))
            except IndexFileError as error:
                raise BadObjectError(f"{self._segment.data.file.path}: its offset index: {error}") from error
        positions = self._index.positions
        at = bisect_right(positions, limit) - 1
        return max(start, positions[at]) if at >= 0 else start

    def _read(self, start: int, end: int, crc: int) -> tuple[bytes, int]:
        piece = self._segment.data.read(end - start, start)
        if len(piece) != end - start:
            raise BadObjectError(f"{self._segment.data.file.path} was truncated meanwhile")
        return piece, crc32c(piece, crc)

    # -- the end of the object ------------------------------------------------------------------------

    def _ending(self, chunks: tuple[Chunk, ...]) -> list[bytes]:
        segment = self._segment
        sections = {
            OFFSET_INDEX: segment.offset_index,
            TIME_INDEX: segment.time_index,
            ABORTED: segment.aborted,
            PRODUCERS: segment.producers,
        }
        table, position = {}, len(segment.data)
        for name, data in sections.items():
            table[name] = Section(position, len(data), crc32c(data))
            position += len(data)
        footer = self._footer(table, chunks)
        footer.check()
        encoded = footer.encode()
        self.entry = entry_of(footer, self._name, position, encoded)
        return [*sections.values(), encoded]

    def _footer(self, sections: dict[str, Section], chunks: tuple[Chunk, ...]) -> Footer:
        folder, segment = self._folder, self._segment
        return Footer(
            topic=folder.topic,
            topic_id=uuid_to_text(folder.topic_id),
            partition=folder.partition,
            base=segment.base,
            end=segment.end,
            leader_epoch=self._leader_epoch,
            size=len(segment.data),
            largest_timestamp=segment.largest_timestamp,
            sections=sections,
            epochs=segment.epochs,
            open_transactions=segment.open_transactions,
            chunks=chunks,
        )
