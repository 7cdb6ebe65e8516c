"""One read of a topic: ranges of offsets in, Arrow batches out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from barnabas.client.offsets import OffsetRange
from barnabas.common.types import TopicPartition
from barnabas.filters import Filter
from barnabas.records.columnar.decode import RecordColumns, decode
from barnabas.tables.rows import RowBuilder, constant
from barnabas.tables.shapes import RowShape
from barnabas.tables.sources import TableSource


@dataclass
class Statistics:
    """Statistics of a read: cost and skipped data."""

    records: int = 0  # decoded
    bytes: int = 0  # of batches, as stored in the log
    bad_values: int = 0  # nulls with a reason
    ranges: list[OffsetRange] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)

    def begin(self) -> None:
        """Another read."""
        self.records = self.bytes = self.bad_values = 0
        self.ranges, self.columns = [], []


async def read_rows(
    source: TableSource,
    ranges: Iterable[OffsetRange],
    shape: RowShape,
    statistics: Statistics,
    where: Filter | None = None,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Read any ranges; several ranges of a partition take several rounds."""
    builder = RowBuilder(shape)
    statistics.columns = shape.schema.names
    offset_range = builder.wanted if where is None else builder.wanted | (where.sources - {"partition"})
    bad = statistics.bad_values
    for round_ in rounds(ranges):
        statistics.ranges += round_
        async with aclosing(_columns(source, round_, offset_range, statistics)) as pieces:
            async for partition, columns in pieces:
                kept = columns if where is None else _kept(columns, partition, where)
                if kept.rows:
                    yield builder.batch(kept, partition)
                    statistics.bad_values = bad + builder.bad


async def _columns(
    table_source: TableSource, ranges: list[OffsetRange], offset_range: Iterable[str], statistics: Statistics
) -> AsyncGenerator[tuple[TopicPartition, RecordColumns], None]:
    source = table_source.read(ranges)
    try:
        while not source.is_done:
            for found in await source.next():
                statistics.bytes += sum(batch.header.size for batch in found.planned.batches)
                for columns in decode(found.planned, set(offset_range), found.first, found.until):
                    statistics.records += columns.rows
                    yield found.tp, columns
    finally:
        await source.close()


def rounds(ranges: Iterable[OffsetRange]) -> list[list[OffsetRange]]:
    """Group ranges into rounds: a source reads one range per partition at a time."""
    found: list[list[OffsetRange]] = []
    for offset_range in ranges:
        for held in found:
            if all(other.tp != offset_range.tp for other in held):
                held.append(offset_range)
                break
        else:
            found.append([offset_range])
    return found


def _kept(columns: RecordColumns, tp: TopicPartition, where: Filter) -> RecordColumns:
    arrays = {**columns.arrays, "partition": constant(tp.partition, pa.int32(), columns.rows)}
    mask = where.mask(arrays, columns.rows)
    chosen = pa.array(mask)
    kept = {name: array.filter(chosen) for name, array in columns.arrays.items()}
    return RecordColumns(int(np.count_nonzero(mask)), kept)
