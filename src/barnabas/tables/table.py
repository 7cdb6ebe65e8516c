"""A topic as a table.

orders = barnabas.table("orders", bootstrap="127.0.0.1:9092")
orders.since("1h").to_pandas()

Every read is a snapshot: it requests the end offsets once, and sees committed records up to there.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from barnabas.client.offsets import OffsetRange
from barnabas.common.durations import seconds_of
from barnabas.common.types import TopicPartition
from barnabas.filters import Filter
from barnabas.records.columnar.decode import TIMESTAMP
from barnabas.tables.dataset import TopicDataset
from barnabas.tables.errors import TableError
from barnabas.tables.reader import Statistics, read_rows
from barnabas.tables.scan import TableScan
from barnabas.tables.shapes import REASON, RowShape
from barnabas.tables.sources import Bounds, OpenSource, Snapshot, TableSource, TimeBound

if TYPE_CHECKING:
    import polars


# -- Offsets that a query needs: windows of each partition, pruned by the query's filter ---------------

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


def prune(windows: list[ReadWindow], condition: pc.Expression, names: Names) -> list[OffsetRange]:
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
    kept = sorted(int(fragment.path) for fragment in dataset.get_fragments(condition))
    return joined([windows[number].wanted for number in kept])


def joined(ranges: list[OffsetRange]) -> list[OffsetRange]:
    found: list[OffsetRange] = []
    for condition in ranges:
        if found and found[-1].tp == condition.tp and found[-1].until == condition.first:
            condition = OffsetRange(condition.tp, found.pop().first, condition.until)
        found.append(condition)
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


TIME_BOUNDS = 64  # per partition, for filters by time


@dataclass(frozen=True)
class Table:
    """A topic and how to read it; no data is read until a method requests rows."""

    topic: str
    open_source: OpenSource
    shape: RowShape
    from_timestamp: int | None = None  # milliseconds
    filter: Filter | None = None
    last: Statistics = field(default_factory=Statistics, compare=False)
    """Statistics of the last read: cost, and values that did not match."""

    @property
    def names(self) -> Names:
        return Names.of("" if self.shape.value is None else "_")

    @property
    def columns(self) -> list[str]:
        """Default columns: the fields of the value, and the reason why a value has none."""
        if self.shape.value is None:
            return [name for name in self.shape.schema.names if name != "headers"]
        return [*self.shape.value.fields.names, *([REASON] if self.shape.value.reason_column else [])]

    @property
    def schema(self) -> pa.Schema:
        """Schema of all available columns."""
        return self.shape.schema

    def since(self, when: str | timedelta | datetime) -> Table:
        """Only records with this timestamp or a later one: `"1h"`, or a point in time."""
        return replace(self, from_timestamp=_milliseconds(when), last=Statistics())

    def where(self, text: str) -> Table:
        """Filter as in `barnabas consume --where`; evaluated before values are parsed."""
        return replace(self, filter=Filter(text), last=Statistics())

    def to_arrow(self, columns: list[str] | None = None) -> pa.Table:
        chosen = self._checked(columns)
        with_schema = self.shape.select(chosen).schema
        scan = self._scan(chosen)
        try:
            return pa.Table.from_batches(list(scan), with_schema)
        finally:
            scan.close()

    def to_pandas(self, columns: list[str] | None = None) -> Any:
        return self.to_arrow(columns).to_pandas()

    def to_polars(self, columns: list[str] | None = None) -> polars.DataFrame:
        import polars

        found = polars.from_arrow(self.to_arrow(columns))
        assert isinstance(found, polars.DataFrame)
        return found

    def dataset(self, columns: list[str] | None = None) -> TopicDataset:
        """Dataset for DuckDB and other engines that push columns and filters down; default: all columns."""
        return TopicDataset(self, self._checked(columns or self.shape.schema.names))

    def latest(self, columns: list[str] | None = None, *, memory: str | None = None) -> pa.Table:
        """Latest record of each key, without keys whose latest record is a tombstone."""
        from barnabas.tables.latest import latest_rows

        return latest_rows(self, self._checked(columns), memory)

    def follow(
        self, checkpoint: str | None = None, *, columns: list[str] | None = None, once: bool = False
    ) -> Iterator[pa.Table]:
        """Yield new records repeatedly. With a checkpoint, resume after the last processed table."""
        from barnabas.tables.follower import follow

        return follow(self, self._checked(columns), checkpoint, once)

    async def batches(
        self, columns: list[str], condition: pc.Expression | None, statistics: Statistics
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Runs on the event loop of a scan."""
        source = await self.open_source()
        try:
            snapshot = await self.snapshot(source)
            ranges = await self.ranges(source, snapshot, condition)
            rows = self.rows(source, ranges, columns, statistics)
            async with aclosing(rows) as found:
                async for batch in found:
                    yield batch
        finally:
            await source.close()

    async def snapshot(self, source: TableSource) -> Snapshot:
        found = await source.snapshot(self.topic)
        if self.from_timestamp is None:
            return found
        since = await source.since(found, self.from_timestamp)
        return {
            partition: Bounds(min(max(bounds.first, since[partition]), bounds.until), bounds.until)
            for partition, bounds in found.items()
        }

    async def ranges(
        self, source: TableSource, snapshot: Snapshot, condition: pc.Expression | None
    ) -> list[OffsetRange]:
        ranges = [OffsetRange(at, *bounds) for at, bounds in snapshot.items() if bounds.until > bounds.first]
        text = str(condition)
        if condition is None or not any(name in text for name in self.names):
            return ranges
        times = None
        if self.names.timestamp in text:
            times = await source.time_bounds(snapshot, TIME_BOUNDS)
        return prune(windows_of(snapshot, times), condition, self.names)

    async def rows(
        self, source: TableSource, ranges: list[OffsetRange], columns: list[str], statistics: Statistics
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Rows are filtered: a record between two offsets may be older than the timestamp of the lookup."""
        if self.from_timestamp is None:
            read, extra = self.shape.select(columns), False
        else:
            extra = self.names.timestamp not in columns
            read = self.shape.select([*columns, *([self.names.timestamp] if extra else [])])
        async with aclosing(read_rows(source, ranges, read, statistics, self.filter)) as found:
            async for batch in found:
                if self.from_timestamp is not None:
                    bound = pa.scalar(self.from_timestamp * 1000, TIMESTAMP)
                    batch = batch.filter(pc.greater_equal(batch.column(self.names.timestamp), bound))
                    batch = batch.select(columns) if extra else batch
                if batch.num_rows:
                    yield batch

    def _scan(self, columns: list[str]) -> TableScan[pa.RecordBatch]:
        self.last.begin()
        return TableScan(lambda: self.batches(columns, None, self.last))

    def _checked(self, columns: list[str] | None) -> list[str]:
        chosen = self.columns if columns is None else list(columns)
        for name in chosen:
            if name not in self.shape.schema.names:
                known = ", ".join(self.shape.schema.names)
                raise TableError(f"{self.topic} has no column {name!r}; it has {known}")
        return chosen


def _milliseconds(when: str | timedelta | datetime) -> int:
    if isinstance(when, datetime):
        return int(when.timestamp() * 1000)
    if isinstance(when, timedelta):
        return int((time.time() - when.total_seconds()) * 1000)
    try:
        return int(datetime.fromisoformat(when).timestamp() * 1000)
    except ValueError:
        return int((time.time() - seconds_of(when)) * 1000)
