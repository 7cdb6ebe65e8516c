"""Fetch offset ranges from an object store by chunks, with prefetch while the caller decodes.

For readers without a broker. The manifests list the segments (`segment_ranges`). Of each segment this reads the footer,
for read_committed the aborted transactions, and the chunks of the range.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, TypeVar

from barnabas.client import FetchedRange
from barnabas.common.errors import KafkaError
from barnabas.common.files import Bytes
from barnabas.log.segments import NOTHING_ABORTED, AbortedIndex, TransactionIndexError
from barnabas.records.columnar.plan import plan_batches
from barnabas.tiering.objects.segment_object import (
    ABORTED,
    BadObjectError,
    Footer,
    read_chunk,
    read_footer,
    read_section,
)
from barnabas.tiering.reading.segment_ranges import SegmentRange
from barnabas.tiering.stores.store import MissingObjectError, ObjectReader

T = TypeVar("T")

CHUNKS_AHEAD = 4
"""Concurrent chunks of 4 MiB. An S3 connection delivers 50 to 90 MB/s; four saturate a Python worker that decodes."""


class _Segment(NamedTuple):
    part: SegmentRange
    footer: Footer
    aborted: AbortedIndex

    @property
    def chunks(self) -> range:
        """Numbers of the chunks that contain the range."""
        return range(self.footer.chunk_at(self.part.first), self.footer.chunk_at(self.part.until - 1) + 1)

    def aborted_in(self, number: int) -> tuple[tuple[int, int], ...]:
        chunks = self.footer.chunks
        behind = chunks[number + 1].base_offset if number + 1 < len(chunks) else self.footer.end
        found = self.aborted.between(max(chunks[number].base_offset, self.part.first), behind)
        return tuple(sorted(found, key=_first_offset))


class _Chunk(NamedTuple):
    segment: _Segment
    number: int
    data: asyncio.Task[Bytes]


class SegmentFetcher:
    """BatchSource. `on_loss` is called for a deleted object: it raises, or the fetcher skips the object."""

    def __init__(
        self,
        store: ObjectReader,
        parts: Iterable[SegmentRange],
        *,
        committed: bool,
        on_loss: Callable[[str], None],
        ahead: int = CHUNKS_AHEAD,
    ) -> None:
        self._store = store
        self._parts = deque(parts)
        self._committed = committed
        self._on_loss = on_loss
        self._ahead = ahead
        self._opening: asyncio.Task[_Segment] | None = None  # for the first of the parts
        self._wanted: deque[tuple[_Segment, int]] = deque()
        self._in_progress: deque[_Chunk] = deque()

    @property
    def is_done(self) -> bool:
        return not (self._parts or self._wanted or self._in_progress)

    async def next(self) -> list[FetchedRange]:
        await self._ask()
        if not self._in_progress:
            return []
        chunk = self._in_progress.popleft()
        try:
            data = await chunk.data
        except MissingObjectError:
            await self._skip(chunk.segment)
            return []
        found = _planned(chunk, data)
        await self._ask()
        await asyncio.sleep(0)  # sends the requests before the caller blocks the loop
        return [found] if found.planned.batches else []

    async def close(self) -> None:
        tasks: list[asyncio.Task[Bytes] | asyncio.Task[_Segment]] = [
            chunk.data for chunk in self._in_progress
        ]
        if self._opening is not None:
            tasks.append(self._opening)
        self._in_progress.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- requests -------------------------------------------------------------------------------------

    async def _ask(self) -> None:
        """Keep enough chunk requests in flight. The footer of the next segment is prefetched."""
        while len(self._in_progress) < self._ahead:
            if not self._wanted and not await self._open_next():
                return
            if self._wanted:
                segment, number = self._wanted.popleft()
                loading = asyncio.create_task(self._load(segment, number))
                self._in_progress.append(_Chunk(segment, number, loading))

    async def _open_next(self) -> bool:
        """Open the next segment; False after the last one, or while chunks are pending and its footer has not
        arrived."""
        self._begin_opening()
        if self._opening is None or (self._in_progress and not self._opening.done()):
            return False
        opening, self._opening = self._opening, None
        try:
            segment = await opening
            self._wanted.extend((segment, number) for number in segment.chunks)
            self._parts.popleft()
        except MissingObjectError:
            self._lose(self._parts.popleft())
        self._begin_opening()
        return True

    def _begin_opening(self) -> None:
        if self._opening is None and self._parts:
            self._opening = asyncio.create_task(self._open(self._parts[0]))

    async def _open(self, part: SegmentRange) -> _Segment:
        footer = await _twice(lambda: read_footer(self._store, part.key, part.entry))
        if not self._committed:
            return _Segment(part, footer, NOTHING_ABORTED)
        section = await _twice(lambda: read_section(self._store, part.key, footer, ABORTED))
        try:
            return _Segment(part, footer, AbortedIndex.from_bytes(section))
        except TransactionIndexError as error:
            raise BadObjectError(f"{part.key}: an index is damaged: {error}") from error

    async def _load(self, segment: _Segment, number: int) -> Bytes:
        return await _twice(lambda: read_chunk(self._store, segment.part.key, segment.footer, number))

    # -- deleted objects --------------------------------------------------------------------------------

    async def _skip(self, segment: _Segment) -> None:
        """Skip a segment whose object was deleted after its footer was read."""
        abandoned = [chunk.data for chunk in self._in_progress if chunk.segment is segment]
        self._in_progress = deque(chunk for chunk in self._in_progress if chunk.segment is not segment)
        self._wanted = deque(each for each in self._wanted if each[0] is not segment)
        await asyncio.gather(*abandoned, return_exceptions=True)
        self._lose(segment.part)

    def _lose(self, part: SegmentRange) -> None:
        offsets = f"offsets {part.first} to {part.until - 1} of {part.tp}"
        self._on_loss(f"{offsets} are lost: {part.key} no longer exists")


async def _twice(read: Callable[[], Awaitable[T]]) -> T:
    """Retry once: a wrong checksum may be a transmission error."""
    try:
        return await read()
    except BadObjectError:
        return await read()


def _planned(chunk: _Chunk, data: Bytes) -> FetchedRange:
    segment, number, _ = chunk
    tp, first, until = segment.part.tp, segment.part.first, segment.part.until
    try:
        planned = plan_batches(memoryview(data), first, until, segment.aborted_in(number))
    except KafkaError as error:
        raise BadObjectError(f"{segment.part.key}, chunk {number} of {tp}: {error.message}") from error
    return FetchedRange(tp, first, until, planned)


def _first_offset(aborted: tuple[int, int]) -> int:
    return aborted[1]
