"""Exact mapping between source and target offsets, for targets that assign their own offsets.

A run is (first source offset, first target offset, length); within a run both offsets increase by one. Runs end at
markers, aborted records and compaction gaps in the source, and at transaction markers and other writers in the target.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.records import read_varint, varint


class OffsetRun(NamedTuple):
    source: int
    target: int
    length: int


class OffsetMap:
    """Runs of one partition, ordered by both offsets."""

    __slots__ = ("_lengths", "_sources", "_targets")

    def __init__(self, runs: Iterable[OffsetRun] = ()) -> None:
        self._sources = array("q")
        self._targets = array("q")
        self._lengths = array("q")
        for run in sorted(runs):
            self.add(run)

    def __len__(self) -> int:
        return len(self._sources)

    def add(self, run: OffsetRun) -> None:
        """Add a run after all others; an adjacent one extends the last run."""
        if self._sources:
            source_end, target_end = (
                self._sources[-1] + self._lengths[-1],
                self._targets[-1] + self._lengths[-1],
            )
            if run.source < source_end or run.target < target_end:
                raise ValueError(f"{run} does not come after ({source_end}, {target_end})")
            if run.source == source_end and run.target == target_end:
                self._lengths[-1] += run.length
                return
        self._sources.append(run.source)
        self._targets.append(run.target)
        self._lengths.append(run.length)

    def target_of(self, source: int) -> int | None:
        """Translate a committed offset: return the target offset of the first mirrored record at or after `source`.

        After the last record: the end of the last run. None if nothing is mirrored.
        """
        if not self._sources:
            return None
        index = bisect_right(self._sources, source) - 1
        if index >= 0 and source < self._sources[index] + self._lengths[index]:
            return self._targets[index] + source - self._sources[index]
        if index + 1 < len(self._sources):
            return self._targets[index + 1]
        return self._targets[index] + self._lengths[index]

    def source_of(self, target: int) -> int | None:
        """Return the source offset of the first record at or after a target offset."""
        if not self._targets:
            return None
        index = bisect_right(self._targets, target) - 1
        if index >= 0 and target < self._targets[index] + self._lengths[index]:
            return self._sources[index] + target - self._targets[index]
        if index + 1 < len(self._sources):
            return self._sources[index + 1]
        return self._sources[index] + self._lengths[index]

    def forget_below(self, target: int) -> list[int]:
        """Drop runs that end before the target's log start offset, and return their first source offsets."""
        ends = array("q", (first + count for first, count in zip(self._targets, self._lengths, strict=True)))
        dropped = min(bisect_left(ends, target + 1), max(0, len(self) - 1))
        firsts = list(self._sources[:dropped])
        del self._sources[:dropped], self._targets[:dropped], self._lengths[:dropped]
        return firsts


def encode_runs(runs: Iterable[OffsetRun]) -> bytes:
    """Encode differences as varints: a typical run takes 4 to 6 bytes."""
    data = bytearray()
    source = target = 0
    for run in runs:
        data += varint(run.source - source) + varint(run.target - target) + varint(run.length)
        source, target = run.source + run.length, run.target + run.length
    return bytes(data)


def decode_runs(data: bytes) -> list[OffsetRun]:
    """Decode runs. Raises ValueError or IndexError on invalid data."""
    runs: list[OffsetRun] = []
    at = source = target = 0
    while at < len(data):
        source_step, at = read_varint(data, at)
        target_step, at = read_varint(data, at)
        count, at = read_varint(data, at)
        if count <= 0:
            raise ValueError(f"a run of {count} offsets")
        runs.append(OffsetRun(source + source_step, target + target_step, count))
        source, target = runs[-1].source + count, runs[-1].target + count
    return runs


def runs_of(offsets: Iterable[int], target: int) -> list[OffsetRun]:
    """Return the runs of records with these source offsets, stored consecutively from `target` on."""
    runs: list[OffsetRun] = []
    for offset in offsets:
        if runs and offset == runs[-1].source + runs[-1].length:
            runs[-1] = runs[-1]._replace(length=runs[-1].length + 1)
        else:
            runs.append(OffsetRun(offset, target, 1))
        target += 1
    return runs
