"""A topic as a pyarrow Dataset: DuckDB and others hand over the columns and the filter that they need."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from barnabas.tables.reading import Statistics
from barnabas.tables.scan import Scan

if TYPE_CHECKING:
    from barnabas.tables.table import Table


class TopicDataset(ds.Dataset):  # type: ignore[misc]
    """Read anew for each scanner, up to the end of that moment. `scans` are those that were begun."""

    def __init__(self, table: Table, columns: list[str]) -> None:
        self._table = table
        self._columns = columns
        self._schema = table.shape.select(columns).schema
        self.scans: list[Scan[pa.RecordBatch]] = []
        self.statistics: list[Statistics] = []

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(self, columns: Any = None, filter: Any = None, **options: Any) -> ds.Scanner:  # noqa: A002
        """Only what is asked for is decoded; ranges that the filter excludes are not read."""
        chosen = list(self._columns if columns is None else columns)
        needed = [name for name in self._columns if name in chosen or _mentions(filter, name)]
        statistics = Statistics()
        self.statistics.append(statistics)
        table = self._table

        def produce() -> AsyncGenerator[pa.RecordBatch, None]:
            return table.batches(needed, filter, statistics)

        scan: Scan[pa.RecordBatch] = Scan(produce)
        self.scans.append(scan)
        schema = table.shape.select(needed).schema
        reader = pa.RecordBatchReader.from_batches(schema, scan)
        return ds.Scanner.from_batches(
            reader, columns=chosen, filter=filter, use_threads=False, batch_readahead=0
        )

    def close(self) -> None:
        for scan in self.scans:
            scan.close()

    def to_table(self, columns: Any = None, filter: Any = None, **options: Any) -> pa.Table:  # noqa: A002
        return self.scanner(columns, filter).to_table()

    def count_rows(self, filter: Any = None, **options: Any) -> int:  # noqa: A002
        return int(self.scanner([self._columns[0]], filter).to_table().num_rows)


def _mentions(wanted: pc.Expression | None, name: str) -> bool:
    """Whether the text of an expression has the name anywhere: one column too many does no harm."""
    return wanted is not None and name in str(wanted)
