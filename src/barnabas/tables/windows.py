"""Offsets that a query needs: windows of each partition, pruned by the query's filter.

Arrow prunes files by a partition expression: each window poses as such a file, which is never opened.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from barnabas.client.offsets import OffsetRange
from barnabas.common.types import TopicPartition
from barnabas.records.columnar.decode import TIMESTAMP
from barnabas.tables.sources import Snapshot, TimeBound

MAX_WINDOWS = 1024  # Arrow takes 6 to 41 ms for 1,000
MICROSECONDS = 1000  # in a millisecond


class Names(NamedTuple):
    """Names of the record's columns: with an underscore if values have fields."""

    partition: str
    offset: str
    timestamp: str

    @classmethod
    def of(cls, prefix: str) -> Names:
        return cls(f"{prefix}partition", f"{prefix}offset", f"{prefix}timestamp")


class ReadWindow(NamedTuple):
    wanted: OffsetRange
    older_than: int | None  # milliseconds; every record in it and before it


def windows_of(
    snapshot: Snapshot, time_bounds: dict[TopicPartition, list[TimeBound]] | None = None
) -> list[ReadWindow]:
    """Windows of equal size, split at each time bound."""
    each = max(1, MAX_WINDOWS // 2 // max(1, len(snapshot)))
    found = []
    for tp, (first, until) in snapshot.items():
        bounds = [bound for bound in (time_bounds or {}).get(tp, ()) if first < bound.offset]
        step = max(1, -(-(until - first) // each))
        borders = {*range(first, until, step), until, *(min(bound.offset, until) for bound in bounds)}
        ordered = sorted(borders)
        for start, end in pairwise(ordered):
            older = min((bound.timestamp for bound in bounds if bound.offset >= end), default=None)
            found.append(ReadWindow(OffsetRange(tp, start, end), older))
    return found


def prune(windows: list[ReadWindow], wanted: pc.Expression, names: Names) -> list[OffsetRange]:
    """Windows that may hold matching rows; adjacent windows are joined."""
    schema = pa.schema(
        [(names.partition, pa.int32()), (names.offset, pa.int64()), (names.timestamp, TIMESTAMP)]
    )
    form, files = ds.ParquetFileFormat(), fs.LocalFileSystem()
    fragments = [
        form.make_fragment(str(number), filesystem=files, partition_expression=_expression(window, names))
        for number, window in enumerate(windows)
    ]
    dataset = ds.FileSystemDataset(fragments, schema, form, files)
    kept = sorted(int(fragment.path) for fragment in dataset.get_fragments(wanted))
    return joined([windows[number].wanted for number in kept])


def joined(ranges: list[OffsetRange]) -> list[OffsetRange]:
    found: list[OffsetRange] = []
    for wanted in ranges:
        if found and found[-1].tp == wanted.tp and found[-1].until == wanted.first:
            wanted = OffsetRange(wanted.tp, found.pop().first, wanted.until)
        found.append(wanted)
    return found


def _expression(window: ReadWindow, names: Names) -> pc.Expression:
    tp, first, until = window.wanted
    found = (
        (pc.field(names.partition) == pa.scalar(tp.partition, pa.int32()))
        & (pc.field(names.offset) >= pa.scalar(first, pa.int64()))
        & (pc.field(names.offset) < pa.scalar(until, pa.int64()))
    )
    if window.older_than is None:
        return found
    return found & (pc.field(names.timestamp) < pa.scalar(window.older_than * MICROSECONDS, TIMESTAMP))
