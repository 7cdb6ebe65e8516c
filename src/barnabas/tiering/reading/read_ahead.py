"""Read-ahead for sequential readers.

A reader that continues from one chunk to the next has one chunk prefetched, then two, four, eight. A single read,
such as a seek, prefetches nothing. Readers are distinguished by their next offset.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress

from barnabas.common.errors import KafkaError
from barnabas.tiering.reading.chunk_cache import ChunkCache
from barnabas.tiering.reading.remote_index_cache import SegmentIndexes

MAX_CHUNKS = 8
MAX_READERS = 64
"""Tracked readers per partition; the least recently active are dropped."""


class ReadAhead:
    """Read-ahead of one partition. `segment_at` returns None after the last known segment."""

    def __init__(
        self, segment_at: Callable[[int], Awaitable[SegmentIndexes | None]], chunks: ChunkCache
    ) -> None:
        self._segment_at = segment_at
        self._chunks = chunks
        self._windows: OrderedDict[int, int] = OrderedDict()  # next offset -> chunks ahead of that reader
        self._tasks: set[asyncio.Task[None]] = set()

    def note_read(self, segment: SegmentIndexes, number: int) -> None:
        """Record a read of this chunk."""
        here, following = segment.footer.chunks[number].base_offset, segment.offset_behind(number)
        if number == 0:
            here = segment.entry.base
        window = self._windows.pop(here, None)
        if window is None:
            if following not in self._windows:  # otherwise the same reader is still in this chunk
                self._note(following, 1)
            return
        self._note(following, min(2 * window, MAX_CHUNKS))
        last = segment.footer.chunk_at(segment.entry.end - 1)
        numbers = range(number + 1, min(number + window, last) + 1)
        if not all(self._chunks.ahead(segment.chunk(each)) for each in numbers):
            return
        if len(numbers) < window:
            task = asyncio.create_task(self._go_ahead(segment.entry.end, window - len(numbers)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _note(self, following: int, window: int) -> None:
        self._windows[following] = window
        if len(self._windows) > MAX_READERS:
            self._windows.popitem(last=False)

    async def _go_ahead(self, offset: int, count: int) -> None:
        """Prefetch chunks, also of the next segments. Errors are ignored here: the reader will encounter them."""
        with suppress(KafkaError):
            for _ in range(count):
                segment = await self._segment_at(offset)
                if segment is None:
                    return
                number = segment.footer.chunk_at(offset)
                if not self._chunks.ahead(segment.chunk(number)):
                    return
                offset = segment.offset_behind(number)

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
