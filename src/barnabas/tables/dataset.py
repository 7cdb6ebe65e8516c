"""A topic as a pyarrow Dataset: DuckDB and others push columns and filters down.

Rows are filtered here, not by Arrow's scanner: its threads would call a Python generator, and a process in which they
are left waiting never exits.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from barnabas.tables.reader import Statistics
from barnabas.tables.scan import TableScan

if TYPE_CHECKING:
    from barnabas.tables.table import Table


class TopicScanner:
    """One scan of a topic, with the methods of pyarrow's Scanner; used once."""

    def __init__(
        self, scan: TableScan[pa.RecordBatch], schema: pa.Schema, condition: pc.Expression | None
    ) -> None:
        self._scan = scan
        self._wanted = condition
        self.projected_schema = schema

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        return pa.Table.from_batches(list(self.to_batches()), self.projected_schema)

    def count_rows(self) -> int:
        return sum(batch.num_rows for batch in self.to_batches())

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        names = self.projected_schema.names
        try:
            for batch in self._scan:
                if self._wanted is None:
                    yield batch.select(names)
                    continue
                kept = pa.Table.from_batches([batch]).filter(self._wanted)
                yield from kept.select(names).to_batches()
        finally:
            self._scan.close()


class TopicDataset(ds.Dataset):  # type: ignore[misc]
    """A snapshot per scanner, taken when the scanner is created. `scans` holds the scans started so far."""

    def __init__(self, table: Table, columns: list[str]) -> None:
        self._table = table
        self._columns = columns
        self._schema = table.shape.select(columns).schema
        self.scans: list[TableScan[pa.RecordBatch]] = []
        self.statistics: list[Statistics] = []

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(self, columns: Any = None, filter: Any = None, **options: Any) -> TopicScanner:  # noqa: A002
        """Only the requested columns are decoded; ranges excluded by the filter are not read."""
        chosen = list(self._columns if columns is None else columns)
        needed = [name for name in self._columns if name in chosen or _mentions(filter, name)]
        statistics = Statistics()
        self.statistics.append(statistics)
        table = self._table

        def produce() -> AsyncGenerator[pa.RecordBatch, None]:
            return table.batches(needed or self._columns[:1], filter, statistics)

        scan: TableScan[pa.RecordBatch] = TableScan(produce)
        self.scans.append(scan)
        return TopicScanner(scan, pa.schema([self._schema.field(name) for name in chosen]), filter)

    def close(self) -> None:
        for scan in self.scans:
            scan.close()

    def to_table(self, columns: Any = None, filter: Any = None, **options: Any) -> pa.Table:  # noqa: A002
        return self.scanner(columns, filter).to_table()

    def count_rows(self, filter: Any = None, **options: Any) -> int:  # noqa: A002
        return self.scanner([self._columns[0]], filter).count_rows()


def _mentions(condition: pc.Expression | None, name: str) -> bool:
    """True if the expression's text contains the name; a false positive only decodes one more column."""
    return condition is not None and name in str(condition)
