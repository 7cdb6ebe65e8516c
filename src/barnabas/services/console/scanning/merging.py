"""Merges hits of partitions that are read concurrently: by time, and by offset within a partition.

A hit is emitted once no other partition can have an earlier one: each has been read up to that time or has a hit
waiting. Out-of-order timestamps within a partition make the merged order approximate; no hit is lost or repeated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from barnabas.services.console.scanning.continuation import encode_positions
from barnabas.services.console.scanning.messages import Range, ScanHits
from barnabas.services.console.scanning.model import Hit

_NOTHING_YET = -(1 << 62)


class HitMerge:
    """Merges hits by moments, which grow in search order: timestamps, negated if the newest come first."""

    def __init__(self, ranges: Iterable[Range], *, newest_first: bool) -> None:
        self._sign = -1 if newest_first else 1
        self._newest_first = newest_first
        self._ends = {one.partition: one.first if newest_first else one.until for one in ranges}
        self._read = {one.partition: one.until if newest_first else one.first for one in ranges}
        self._given = dict(self._read)
        self._reached = dict.fromkeys(self._ends, _NOTHING_YET)
        self._waiting: dict[int, deque[Hit]] = {}
        self.size = sum(one.until - one.first for one in ranges)

    def add(self, found: ScanHits) -> None:
        for hit in found.hits:
            self._waiting.setdefault(hit.partition, deque()).append(hit)
        for partition, timestamp in found.reached.items():
            self._reached[partition] = max(self._reached[partition], self._sign * timestamp)
        self._read.update(found.positions)
        for partition in found.positions:
            self._settle(partition)

    def ready(self, limit: int, *, all_of_them: bool = False) -> Iterator[Hit]:
        """Yield up to `limit` hits in order; `all_of_them` includes hits that other partitions may still precede."""
        while limit > 0 and self._waiting:
            partition = min(self._waiting, key=self._moment)
            if not all_of_them and self._moment(partition) > self._horizon():
                return
            yield self._take(partition)
            limit -= 1

    @property
    def offsets(self) -> int:
        """Number of offsets read."""
        return self.size - sum(abs(self._ends[one] - at) for one, at in self._read.items())

    @property
    def continue_at(self) -> str:
        """Continuation token after the emitted hits."""
        return encode_positions({one: at for one, at in self._given.items() if at != self._ends[one]})

    def _moment(self, partition: int) -> int:
        return self._sign * self._waiting[partition][0].timestamp

    def _horizon(self) -> int:
        open_ones = (
            reached
            for partition, reached in self._reached.items()
            if partition not in self._waiting and self._read[partition] != self._ends[partition]
        )
        return min(open_ones, default=1 << 62)

    def _take(self, partition: int) -> Hit:
        hits = self._waiting[partition]
        hit = hits.popleft()
        self._given[partition] = hit.offset if self._newest_first else hit.offset + 1
        if not hits:
            del self._waiting[partition]
            self._settle(partition)
        return hit

    def _settle(self, partition: int) -> None:
        """Advance to the read position once all hits of the partition are emitted, so that it is not read again."""
        if partition not in self._waiting:
            self._given[partition] = self._read[partition]
