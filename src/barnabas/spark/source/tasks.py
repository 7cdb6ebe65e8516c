"""Tasks in Spark's Python workers: ranges in, Arrow batches out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pyspark.sql.datasource import InputPartition

from barnabas.client.offsets import OffsetRange
from barnabas.spark.broker_link import link_to
from barnabas.spark.errors import DataLossError, SourceError
from barnabas.spark.source.columns import SparkRowShape
from barnabas.spark.source.ranges import plan_tasks
from barnabas.spark.source.settings import SourceSettings
from barnabas.spark.worker_process import begin_task

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client import BatchSource, FetchedRange
    from barnabas.tiering.reading.segment_ranges import SegmentRange

log = logging.getLogger(__name__)

T = TypeVar("T")

STORE_TASK_BYTES = 256 << 20
"""Of one task that reads an object store: some seconds of work, and few enough chunks are read twice."""


class ReadTask(InputPartition):
    """The ranges of one Spark task."""

    def __init__(self, ranges: list[OffsetRange]) -> None:
        super().__init__(None)
        self.ranges = ranges

    def __repr__(self) -> str:
        return f"ReadTask({self.ranges})"


class StoreTask(InputPartition):
    """The parts of segments in an object store that one Spark task reads."""

    def __init__(self, parts: list[SegmentRange]) -> None:
        super().__init__(None)
        self.parts = parts

    def __repr__(self) -> str:
        return f"StoreTask({[part[:3] for part in self.parts]})"


class SourceLink(Protocol):
    """To brokers, or to an object store."""

    def run(self, work: Coroutine[Any, Any, T]) -> T: ...


def tasks_for(ranges: list[OffsetRange], settings: SourceSettings) -> list[InputPartition]:
    if settings.remote is not None:
        return _store_tasks(ranges, settings)
    return [ReadTask(task) for task in _planned(ranges, settings)]


def _planned(ranges: list[OffsetRange], settings: SourceSettings) -> list[list[OffsetRange]]:
    return plan_tasks(
        ranges,
        min_partitions=settings.min_partitions,
        max_records=settings.max_records,
        shared_records=settings.shared_records,
    )


def _store_tasks(ranges: list[OffsetRange], settings: SourceSettings) -> list[InputPartition]:
    """Years of a partition are one range: split it by segment, unless the caller chose otherwise."""
    from barnabas.spark.source.remote_topics import remote_topics
    from barnabas.tiering.reading.segment_ranges import divide_by_size, segment_ranges

    assert settings.remote is not None
    held = remote_topics(settings.remote, settings.subscription).held(ranges, _losing(settings))
    by_partition = {found.wanted.tp: found for found in held}
    if settings.min_partitions is None and settings.max_records is None:
        there = [
            part for found in held for part in divide_by_size(found.wanted, found.entries, STORE_TASK_BYTES)
        ]
    else:
        there = [found.wanted for found in held]

    def parts_of(wanted: OffsetRange) -> list[SegmentRange]:
        found = by_partition[wanted.tp]
        return segment_ranges(found.partition, found.entries, wanted)

    return [
        StoreTask([part for wanted in task for part in parts_of(wanted)])
        for task in _planned(there, settings)
    ]


def read_task(
    task: InputPartition, shape: SparkRowShape, settings: SourceSettings
) -> Iterator[pa.RecordBatch]:
    """The rows of a task. Numba and Arrow are loaded here, in the workers; the driver does without."""
    if not isinstance(task, (ReadTask, StoreTask)):
        return  # Spark creates one empty task if there is nothing to read
    from barnabas.records.columnar.decode import decode
    from barnabas.spark.source.rows import row_builder
    from barnabas.tables import BadValueError

    begin_task()
    builder = row_builder(shape)
    try:
        for found in _fetch(task, settings):
            for columns in decode(found.planned, builder.wanted, found.first, found.until):
                yield builder.batch(columns, found.tp)
    except BadValueError as error:
        raise SourceError(str(error)) from error


def _fetch(task: ReadTask | StoreTask, settings: SourceSettings) -> Iterator[FetchedRange]:
    from barnabas.client import StalledError

    link, source = _opened(task, settings)
    try:
        while not source.is_done:
            yield from link.run(source.next())
    except StalledError as error:
        raise SourceError(f"{error}; see the option 'kafkaConsumer.pollTimeoutMs'") from error
    finally:
        link.run(source.close())


def _opened(task: ReadTask | StoreTask, settings: SourceSettings) -> tuple[SourceLink, BatchSource]:
    lose = _losing(settings)
    if isinstance(task, ReadTask):
        from barnabas.client import RangeFetcher

        brokers = link_to(**settings.client.link)
        fetch = settings.client.fetch
        return brokers, RangeFetcher(brokers.client, task.ranges, fetch, settings.poll_timeout, lose)
    from barnabas.spark.store_link import store_link
    from barnabas.tiering.reading import SegmentFetcher

    assert settings.remote is not None
    store, committed = store_link(settings.remote), settings.client.committed_only
    return store, SegmentFetcher(store.reader, task.parts, committed=committed, on_loss=lose)


def _losing(settings: SourceSettings) -> Callable[[str], None]:
    def lose(what: str) -> None:
        if settings.fail_on_data_loss:
            raise DataLossError(what)
        log.warning("%s; continuing without it (failOnDataLoss is false)", what)

    return lose
