"""Aborted transactions and the file `.txnindex`: what a reader of committed data must skip."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

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
