"""Reads offset ranges: forwards in log order, or backwards in windows.

Backwards: a window of offsets is read forwards and returned as a whole, then the window before it. Windows start at a
few records, so that the newest appear immediately, and grow up to WINDOW_BYTES.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from barnabas.client import Client, FetchedRange, FetchSettings, RangeFetcher
from barnabas.client.offsets import OffsetRange
from barnabas.common.types import TopicPartition
from barnabas.records.columnar.decode import RecordColumns, decode_piece
from barnabas.records.columnar.plan import DecodePlan, Piece, open_pieces

PARTITION_BYTES, FETCH_BYTES = 2 << 20, 8 << 20
STALLED_SECONDS = 30.0
FIRST_OFFSETS = 64
FIRST_BYTES, WINDOW_BYTES, ROUND_BYTES = 256 << 10, 8 << 20, 32 << 20
GROWTH = 4
NEVER = 1 << 62

Lose = Callable[[str], None]


class RecordRun(NamedTuple):
    """Records of a partition in offset order."""

    piece: Piece
    planned: DecodePlan
    first: int
    until: int

    def columns(self, wanted: Collection[str]) -> RecordColumns:
        return decode_piece(self.piece, self.planned, wanted, self.first, self.until)

    @property
    def next_offset(self) -> int:
        return min(self.until, self.piece.batches[-1].header.next_offset)


class FetchedSection(NamedTuple):
    """Records of a partition from one fetch."""

    tp: TopicPartition
    first: int
    until: int
    planned: DecodePlan

    @property
    def bytes(self) -> int:
        return sum(batch.header.size for batch in self.planned.batches)

    @property
    def oldest(self) -> int:
        return min(batch.header.base_timestamp for batch in self.planned.batches)

    @property
    def newest(self) -> int:
        return max(batch.header.max_timestamp for batch in self.planned.batches)

    def parts(self) -> Iterator[RecordRun]:
        for piece in open_pieces(self.planned):
            yield RecordRun(piece, self.planned, self.first, self.until)


def settings(committed: bool) -> FetchSettings:
    return FetchSettings(
        max_bytes=FETCH_BYTES, partition_bytes=PARTITION_BYTES, max_wait=0.25, isolation=int(committed)
    )


@asynccontextmanager
async def fetching(
    client: Client, ranges: Iterable[OffsetRange], committed: bool, on_loss: Lose
) -> AsyncIterator[RangeFetcher]:
    fetcher = RangeFetcher(client, ranges, settings(committed), STALLED_SECONDS, on_loss)
    try:
        yield fetcher
    finally:
        await fetcher.close()


async def forwards(
    client: Client, ranges: Iterable[OffsetRange], committed: bool, on_loss: Lose
) -> AsyncIterator[FetchedSection]:
    async with fetching(client, ranges, committed, on_loss) as fetcher:
        while not fetcher.is_done:
            for found in await fetcher.next():
                yield FetchedSection(*found)


class ScanWindow:
    """Next window of offsets of a partition, from the newest to the oldest.

    `partitions`: number of partitions read concurrently. They hold their hits until each has read its window, and share
    ROUND_BYTES.
    """

    def __init__(self, offset_range: OffsetRange, partitions: int = 1) -> None:
        self.tp, self._lowest, self.until = offset_range
        self._most_bytes = min(WINDOW_BYTES, max(FIRST_BYTES, ROUND_BYTES // partitions))
        self._offsets, self._wanted_bytes = FIRST_OFFSETS, FIRST_BYTES
        self._bytes = 0
        self.first = max(self._lowest, self.until - self._offsets)

    @property
    def range(self) -> OffsetRange:
        return OffsetRange(self.tp, self.first, self.until)

    @property
    def is_done(self) -> bool:
        return self.until <= self._lowest

    def take(self, found: FetchedRange) -> FetchedSection:
        """Take the fetched records, including those of the first batch before the window."""
        if self._bytes == 0:
            self.first = max(self._lowest, min(self.first, found.planned.batches[0].header.base_offset))
        section = FetchedSection(found.tp, self.first, self.until, found.planned)
        self._bytes += section.bytes
        return section

    def advance(self) -> None:
        """Move to the preceding window."""
        density = self._bytes / (self.until - self.first)
        self._offsets = int(self._wanted_bytes / density) + 1 if density else self._offsets * GROWTH * GROWTH
        self._wanted_bytes = min(self._most_bytes, self._wanted_bytes * GROWTH)
        self._bytes = 0
        self.until = self.first
        self.first = max(self._lowest, self.until - self._offsets)
