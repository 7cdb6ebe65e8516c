"""A topic as a table: everything between two moments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from barnabas.spark.errors import SourceError
from barnabas.spark.source.columns import RowShape
from barnabas.spark.source.offset_resolver import OffsetResolver
from barnabas.spark.source.ranges import ranges_between
from barnabas.spark.source.settings import SourceSettings
from barnabas.spark.source.tasks import read_task, tasks_for

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    """Offsets are resolved once, when the query is planned: all tasks see the same moment."""

    def __init__(self, settings: SourceSettings, shape: RowShape) -> None:
        self._settings = settings
        self._shape = shape

    def partitions(self) -> list[InputPartition]:
        view = OffsetResolver(self._settings)
        assigned = view.assigned()
        start = view.resolve(self._settings.starting, assigned, starting=True)
        end = view.resolve(self._settings.ending, assigned, starting=False)
        for place, first in start.items():
            if first > end[place]:
                raise SourceError(f"{place} would start at offset {first} and end before it, at {end[place]}")
        return tasks_for(ranges_between(start, end), self._settings)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(partition, self._shape, self._settings)
