"""What runs in Spark's Python workers: ranges in, Arrow batches out."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from barnabas.client.offsets import OffsetRange
from barnabas.pipelines.broker_link import link_to
from barnabas.pipelines.errors import DataLossError, SourceError
from barnabas.pipelines.source.columns import RowShape
from barnabas.pipelines.source.ranges import plan_tasks
from barnabas.pipelines.source.settings import SourceSettings
from barnabas.pipelines.worker_process import begin_task

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.range_fetcher import FetchedRange

log = logging.getLogger(__name__)


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
    from barnabas.pipelines.source.rows import row_builder
    from barnabas.records.columnar.decode import decode
    from barnabas.tables.errors import BadValueError

    begin_task()
    builder = row_builder(shape)
    try:
        for found in _fetch(task.ranges, settings):
            for columns in decode(found.planned, builder.wanted, found.first, found.until):
                yield builder.batch(columns, found.place)
    except BadValueError as error:
        raise SourceError(str(error)) from error


def _fetch(ranges: list[OffsetRange], settings: SourceSettings) -> Iterator[FetchedRange]:
    from barnabas.client.range_fetcher import RangeFetcher, StalledError

    def lose(what: str) -> None:
        if settings.fail_on_data_loss:
            raise DataLossError(what)
        log.warning("%s; going on without it (failOnDataLoss is false)", what)

    link = link_to(**settings.client.link)
    fetcher = RangeFetcher(link.client, ranges, settings.client.fetch, settings.poll_timeout, lose)
    try:
        while not fetcher.is_done:
            yield from link.run(fetcher.next())
    except StalledError as error:
        raise SourceError(f"{error}; see the option 'kafkaConsumer.pollTimeoutMs'") from error
    finally:
        link.run(fetcher.close())
