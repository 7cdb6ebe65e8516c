"""Used idempotency keys, bounded in number and age. Pure: the caller stores and loads the entries.

The keys of one transaction form one entry, which is stored in that transaction. Only digests of keys and bodies are
kept: 28 bytes per key in the topic, about 200 in memory. The oldest entries are evicted when they expire or the number
of keys exceeds its limit; the tombstones are stored with the next transaction.
"""

from __future__ import annotations

import hashlib
import struct
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

PREFIX = "keys."
_TIME = struct.Struct(">Q")
_USED = struct.Struct(">16s8sI")
_KEPT = struct.Struct(">Q8sI")
_NOTHING = bytes(_KEPT.size)


class Used(NamedTuple):
    """Digests of a key and of the body it was used for."""

    key: bytes
    body: bytes
    records: int


def digests(key: str, body: bytes, records: int) -> Used:
    return Used(
        hashlib.blake2b(key.encode(), digest_size=16).digest(),
        hashlib.blake2b(body, digest_size=8).digest(),
        records,
    )


class _Entry(NamedTuple):
    number: int
    at: int
    """Unix time in milliseconds."""
    keys: tuple[bytes, ...]


class KeyStore:
    def __init__(self, limit: int, seconds: float) -> None:
        self._most = limit
        self._seconds = seconds
        self._entries: deque[_Entry] = deque()
        self._used: dict[bytes, bytes] = {}
        """By key digest: packed time, body digest and record count."""
        self._next = 1

    def __len__(self) -> int:
        return len(self._used)

    def load(self, positions: Mapping[str, bytes]) -> None:
        """Replace the contents with the stored entries."""
        self._entries.clear()
        self._used.clear()
        for name in sorted(name for name in positions if name.startswith(PREFIX)):
            at, used = _decode(positions[name])
            self._add(int(name.removeprefix(PREFIX)), at, used)

    def find(self, key: bytes, now: float) -> Used | None:
        found = self._used.get(key)
        if found is None:
            return None
        at, body, records = _KEPT.unpack(found)
        return Used(key, body, records) if now - at / 1000 < self._seconds else None

    def store(self, used: Sequence[Used], now: float) -> tuple[int, dict[str, bytes | None]]:
        """Return the number of a new entry and the positions to store: the entry, and tombstones of evicted ones."""
        number = self._next
        self._next += 1
        expired = self._outdated(len(used), now)
        positions: dict[str, bytes | None] = {_name(entry.number): None for entry in expired}
        if used:
            positions[_name(number)] = _encode(_milliseconds(now), used)
        return number, positions

    def stored(self, number: int, used: Sequence[Used], now: float) -> None:
        """Apply a committed entry: evict old entries and add the new one."""
        for entry in list(self._outdated(len(used), now)):
            self._entries.popleft()
            for key in entry.keys:
                if _KEPT.unpack(self._used.get(key, _NOTHING))[0] == entry.at:  # else the key was reused
                    del self._used[key]
        if used:
            self._add(number, _milliseconds(now), used)

    def _add(self, number: int, at: int, used: Sequence[Used]) -> None:
        self._entries.append(_Entry(number, at, tuple(each.key for each in used)))
        self._used.update({each.key: _KEPT.pack(at, each.body, each.records) for each in used})
        self._next = max(self._next, number + 1)

    def _outdated(self, more: int, now: float) -> Iterator[_Entry]:
        """Yield the oldest entries to evict before adding `more` keys."""
        left = len(self._used) + more
        for entry in self._entries:
            if left <= self._most and now - entry.at / 1000 < self._seconds:
                return
            left -= len(entry.keys)
            yield entry


def _milliseconds(now: float) -> int:
    return int(now * 1000)


def _name(number: int) -> str:
    return f"{PREFIX}{number:016d}"


def _encode(at: int, used: Sequence[Used]) -> bytes:
    return _TIME.pack(at) + b"".join([_USED.pack(*each) for each in used])


def _decode(value: bytes) -> tuple[int, list[Used]]:
    (at,) = _TIME.unpack_from(value)
    return at, [Used(*each) for each in _USED.iter_unpack(value[_TIME.size :])]
