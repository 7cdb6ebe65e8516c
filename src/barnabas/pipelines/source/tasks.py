"""What runs in Spark's Python workers: ranges in, Arrow batches out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from barnabas.pipelines.broker_link import link_to
from barnabas.pipelines.quiet_workers import leave_quietly
from barnabas.pipelines.source.columns import RowShape
from barnabas.pipelines.source.ranges import OffsetRange, plan_tasks
from barnabas.pipelines.source.settings import SourceSettings
from barnabas.pipelines.worker_memory import keep_freed_memory, set_modules_aside

if TYPE_CHECKING:
    import pyarrow as pa


class ReadTask(InputPartition):
    """The ranges of one Spark task."""

    def __init__(self, ranges: list[OffsetRange]) -> None:
        super().__init__(None)
        self.ranges = ranges

    def __repr__(self) -> str:
        return f"ReadTask({self.ranges})"


def tasks_for(ranges: list[OffsetRange], settings: SourceSettings) -> list[InputPartition]:
    planned = plan_tasks(
        ranges,
        min_partitions=settings.min_partitions,
        max_records=settings.max_records,
        shared_records=settings.shared_records,
    )
    return [ReadTask(task) for task in planned]


def read_task(task: InputPartition, shape: RowShape, settings: SourceSettings) -> Iterator[pa.RecordBatch]:
    """The rows of a task. Numba and Arrow are loaded here, in the workers; the driver does without."""
    if not isinstance(task, ReadTask):
        return  # Spark makes one task without anything where there is nothing to read
    from barnabas.pipelines.source.fetching import FetchingSettings, RangeFetcher
    from barnabas.pipelines.source.rows import RowBuilder
    from barnabas.records.columnar.decode import decode

    keep_freed_memory()
    set_modules_aside()
    leave_quietly()
    builder = RowBuilder(shape)
    fetching = FetchingSettings(settings.client.fetch, settings.poll_timeout, settings.fail_on_data_loss)
    for found in RangeFetcher(link_to(**settings.client.link), task.ranges, fetching):
        for columns in decode(found.planned, builder.wanted, found.first, found.until):
            yield builder.batch(columns, found.place)
