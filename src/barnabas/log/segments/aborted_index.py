"""The aborted transactions of one segment, in memory: columns that bisect searches, as in the other indexes.

There may be a million, and every fetch of committed data asks for a few. Entries stand in the order of their markers,
so those that end before a place are skipped by bisection. A transaction that was open for long lies behind many short
ones that do not matter; blocks of entries that begin too late are skipped by the lowest first offset of each.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from struct import Struct
from typing import NamedTuple

from barnabas.log.segments.indexes import big_endian

# -- Aborted transactions and the file `.txnindex`: what a reader of committed data must skip ----------

_ENTRY = Struct(">hqqqq")
VERSION = 0
ENTRY_SIZE = _ENTRY.size


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int  # of its marker
    aborted: bool


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int  # once it was over; lets a search stop early


class TransactionIndexError(ValueError):
    """The file cannot be right; it is built again from the segment."""


def encode_aborted(entries: list[AbortedTransaction]) -> bytes:
    return b"".join(_ENTRY.pack(VERSION, *entry) for entry in entries)


def decode_aborted(data: bytes) -> list[AbortedTransaction]:
    if len(data) % _ENTRY.size:
        raise TransactionIndexError(f"{len(data)} bytes are not a whole number of entries")
    entries = []
    for version, *fields in _ENTRY.iter_unpack(data):
        if version != VERSION:
            raise TransactionIndexError(f"an entry of version {version}")
        entries.append(AbortedTransaction._make(fields))
    return entries


BLOCK = 512
_PIECE = 16_384
_LONG = "q"
_LONG_SIZE = 8
_FIRST_COLUMN = 2  # behind the version


class AbortedIndex:
    """`last_offsets` ascend; so does `last_stable_offset`, behind which a search need not go."""

    __slots__ = ("_lowest", "first_offsets", "last_offsets", "producer_ids", "stable_offsets")

    def __init__(self, entries: Iterable[AbortedTransaction] = ()) -> None:
        columns = [array(_LONG, column) for column in zip(*entries, strict=True)] or [
            array(_LONG) for _ in range(4)
        ]
        self.producer_ids, self.first_offsets, self.last_offsets, self.stable_offsets = columns
        self._settle()

    def _settle(self) -> None:
        """Make true what searches rely on. Compaction and old files may have another order."""
        if not _never_descends(self.last_offsets):
            entries = sorted(self, key=lambda entry: entry.last_offset)
            columns = [array(_LONG, column) for column in zip(*entries, strict=True)]
            self.producer_ids, self.first_offsets, self.last_offsets, self.stable_offsets = columns
        if not _never_descends(self.stable_offsets):
            self.stable_offsets = array(_LONG, accumulate(reversed(self.stable_offsets), min))
            self.stable_offsets.reverse()
        firsts = self.first_offsets
        self._lowest = array(_LONG, (min(firsts[at : at + BLOCK]) for at in range(0, len(firsts), BLOCK)))

    def __len__(self) -> int:
        return len(self.producer_ids)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        columns = self.producer_ids, self.first_offsets, self.last_offsets, self.stable_offsets
        return map(AbortedTransaction, *columns)

    def append(self, entry: AbortedTransaction) -> None:
        if len(self) % BLOCK == 0:
            self._lowest.append(entry.first_offset)
        elif entry.first_offset < self._lowest[-1]:
            self._lowest[-1] = entry.first_offset
        self.producer_ids.append(entry.producer_id)
        self.first_offsets.append(entry.first_offset)
        self.last_offsets.append(entry.last_offset)
        self.stable_offsets.append(entry.last_stable_offset)

    def ended_by(self, last_offset: int) -> AbortedIndex:
        """Only those whose markers are not behind `last_offset`."""
        keep = bisect_right(self.last_offsets, last_offset)
        kept = AbortedIndex()
        kept.producer_ids, kept.first_offsets = self.producer_ids[:keep], self.first_offsets[:keep]
        kept.last_offsets, kept.stable_offsets = self.last_offsets[:keep], self.stable_offsets[:keep]
        kept._settle()
        return kept

    def between(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """(producer id, first offset) of those with a part in [start, end), in the order of their markers."""
        at = bisect_left(self.last_offsets, start)
        stop = min(bisect_left(self.stable_offsets, end) + 1, len(self))
        firsts, producers = self.first_offsets, self.producer_ids
        while at < stop:
            block = at // BLOCK
            until = min((block + 1) * BLOCK, stop)
            if self._lowest[block] < end:
                for number in range(at, until):
                    if firsts[number] < end:
                        yield producers[number], firsts[number]
            at = until

    def is_last_needed_for(self, end: int) -> bool:
        """Is there nothing below `end` in the segments that follow?"""
        return bool(self.stable_offsets) and self.stable_offsets[-1] >= end

    # -- the file -----------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        data = bytearray(ENTRY_SIZE * len(self))  # version 0
        columns = self.producer_ids, self.first_offsets, self.last_offsets, self.stable_offsets
        for number, column in enumerate(columns):
            raw = big_endian(array(_LONG, column)).tobytes()
            for byte in range(_LONG_SIZE):
                data[_FIRST_COLUMN + _LONG_SIZE * number + byte :: ENTRY_SIZE] = raw[byte::_LONG_SIZE]
        return bytes(data)

    @classmethod
    def from_bytes(cls, data: bytes) -> AbortedIndex:
        """TransactionIndexError if it cannot be right."""
        if len(data) % ENTRY_SIZE:
            raise TransactionIndexError(f"{len(data)} bytes are not a whole number of entries")
        if any(data[0::ENTRY_SIZE]) or any(data[1::ENTRY_SIZE]):
            raise TransactionIndexError(f"an entry of another version than {VERSION}")
        index = cls()
        index.producer_ids, index.first_offsets, index.last_offsets, index.stable_offsets = (
            _column(data, number) for number in range(4)
        )
        index._settle()
        return index


def _column(data: bytes, number: int) -> array[int]:
    """Entries have 34 bytes, so each of the eight bytes of a number is copied for all entries at once."""
    raw = bytearray(len(data) // ENTRY_SIZE * _LONG_SIZE)
    for byte in range(_LONG_SIZE):
        raw[byte::_LONG_SIZE] = data[_FIRST_COLUMN + _LONG_SIZE * number + byte :: ENTRY_SIZE]
    return big_endian(array(_LONG, bytes(raw)))


def _never_descends(numbers: array[int]) -> bool:
    """In pieces: in a thread, each of them lets the loop go on."""
    for start in range(0, len(numbers), _PIECE):
        values = numbers[start : start + _PIECE + 1].tolist()
        if values != sorted(values):
            return False
    return True


NOTHING_ABORTED = AbortedIndex()
"""Of most segments, so they share it. An append makes one of its own."""
