"""The aborted transactions of one segment, and the `.txnindex` file that stores them.

A segment may have a million of them, and every read_committed fetch needs a few. The index is held in columns that
bisect searches, like the other indexes. Entries are ordered by the offset of their marker, so bisection skips those
that end before the fetch. A long transaction follows many short ones that do not overlap the fetch; for these, each
block of entries records its lowest first offset, and blocks that start too late are skipped.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from struct import Struct
from typing import NamedTuple

from barnabas.log.segments.indexes import big_endian

# -- Entries of the `.txnindex` file: transactions that read_committed consumers skip ------------------

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
    last_stable_offset: int  # after the transaction ended; bounds a search


class TransactionIndexError(ValueError):
    """The file is invalid and has to be rebuilt from the segment."""


def encode_aborted(entries: list[AbortedTransaction]) -> bytes:
    return b"".join(_ENTRY.pack(VERSION, *entry) for entry in entries)


def decode_aborted(data: bytes) -> list[AbortedTransaction]:
    if len(data) % _ENTRY.size:
        raise TransactionIndexError(f"{len(data)} bytes are not a whole number of entries")
    entries = []
    for version, *fields in _ENTRY.iter_unpack(data):
        if version != VERSION:
            raise TransactionIndexError(f"unsupported entry version {version}")
        entries.append(AbortedTransaction._make(fields))
    return entries


BLOCK = 512
_CHUNK = 16_384
_LONG = "q"
_LONG_SIZE = 8
_FIRST_COLUMN = 2  # after the version


class AbortedIndex:
    """Columns of the entries, in ascending order of both `last_offsets` and `stable_offsets`."""

    __slots__ = ("_lowest", "first_offsets", "last_offsets", "producer_ids", "stable_offsets")

    def __init__(self, entries: Iterable[AbortedTransaction] = ()) -> None:
        columns = [array(_LONG, column) for column in zip(*entries, strict=True)] or [
            array(_LONG) for _ in range(4)
        ]
        self.producer_ids, self.first_offsets, self.last_offsets, self.stable_offsets = columns
        self._settle()

    def _settle(self) -> None:
        """Establish the order that searches rely on; compaction and old files may produce a different one."""
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
        """Return an index of the transactions whose marker is at `last_offset` or before."""
        keep = bisect_right(self.last_offsets, last_offset)
        kept = AbortedIndex()
        kept.producer_ids, kept.first_offsets = self.producer_ids[:keep], self.first_offsets[:keep]
        kept.last_offsets, kept.stable_offsets = self.last_offsets[:keep], self.stable_offsets[:keep]
        kept._settle()
        return kept

    def between(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield (producer id, first offset) of transactions that overlap [start, end), ordered by marker."""
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
        """True if no later segment has an aborted transaction with records below `end`."""
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
        """Decode the file; raise TransactionIndexError if it is invalid."""
        if len(data) % ENTRY_SIZE:
            raise TransactionIndexError(f"{len(data)} bytes are not a whole number of entries")
        if any(data[0::ENTRY_SIZE]) or any(data[1::ENTRY_SIZE]):
            raise TransactionIndexError(f"unsupported entry version; expected {VERSION}")
        index = cls()
        index.producer_ids, index.first_offsets, index.last_offsets, index.stable_offsets = (
            _column(data, number) for number in range(4)
        )
        index._settle()
        return index


def _column(data: bytes, number: int) -> array[int]:
    """Decode one column. Entries have 34 bytes, so each of a number's eight bytes is copied for all entries at once."""
    raw = bytearray(len(data) // ENTRY_SIZE * _LONG_SIZE)
    for byte in range(_LONG_SIZE):
        raw[byte::_LONG_SIZE] = data[_FIRST_COLUMN + _LONG_SIZE * number + byte :: ENTRY_SIZE]
    return big_endian(array(_LONG, bytes(raw)))


def _never_descends(numbers: array[int]) -> bool:
    """True if the numbers are sorted. Checked in chunks: in a thread, the event loop runs between them."""
    for start in range(0, len(numbers), _CHUNK):
        values = numbers[start : start + _CHUNK + 1].tolist()
        if values != sorted(values):
            return False
    return True


NOTHING_ABORTED = AbortedIndex()
"""Shared by the segments without aborted transactions, which are most of them. Never appended to."""
