"""A topic as a stream: start and end of each micro-batch, and its tasks.

The driver keeps one reader for the life of a query, in a separate process. Spark owns the progress: the state here only
saves requests, or passes values from one call to the next.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from barnabas.client import ClientError
from barnabas.client.groups import commit_offsets
from barnabas.common.errors import KafkaError
from barnabas.spark.broker_link import BrokerLink, link_to
from barnabas.spark.errors import DataLossError, SourceError
from barnabas.spark.source.columns import SparkRowShape
from barnabas.spark.source.offsets import Offsets, StreamPosition, partitions_text, share_out, size_between
from barnabas.spark.source.ranges import ranges_between
from barnabas.spark.source.settings import SourceSettings
from barnabas.spark.source.tasks import read_task, tasks_for
from barnabas.spark.source.topics import OffsetResolver

if TYPE_CHECKING:
    import pyarrow as pa


# -- A topic as a table: everything between two moments ------------------------------------------------


class BatchReader(DataSourceReader):
    """Offsets are resolved once, when the query is planned: all tasks see the same snapshot."""

    def __init__(self, settings: SourceSettings, shape: SparkRowShape) -> None:
        self._settings = settings
        self._shape = shape

    def partitions(self) -> list[InputPartition]:
        view = OffsetResolver(self._settings)
        assigned = view.assigned()
        start = view.resolve(self._settings.starting, assigned, starting=True)
        end = view.resolve(self._settings.ending, assigned, starting=False)
        for tp, first in start.items():
            if first > end[tp]:
                raise SourceError(f"{tp} would start at offset {first} and end before it, at {end[tp]}")
        return tasks_for(ranges_between(start, end), self._settings)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(partition, self._shape, self._settings)


log = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, settings: SourceSettings, shape: SparkRowShape) -> None:
        self._settings = settings
        self._shape = shape
        self._initial: StreamPosition | None = None
        self._latest: StreamPosition | None = None
        self._target: StreamPosition | None = None  # the end of a run with Trigger.AvailableNow
        self._last_trigger = 0.0

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        view = OffsetResolver(self._settings)
        assigned = view.assigned()
        if self._settings.span is not None:
            offsets = {tp: self._settings.span[0].get(tp, 0) for tp in assigned.partitions}
        else:
            offsets = view.resolve(self._settings.starting, assigned, starting=True)
        self._initial = StreamPosition(offsets, assigned.ids)
        return self._initial.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        if self._settings.max_offsets is not None:
            return ReadMaxRows(self._settings.max_offsets)
        if self._settings.min_offsets is not None:
            return ReadMinRows(self._settings.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        latest = self._ends({}, recent=False)
        span = self._settings.span
        ends = latest.offsets if span is None else {tp: span[1].get(tp, 0) for tp in latest.offsets}
        self._target = StreamPosition(ends, latest.ids)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """End of the next micro-batch; exactly `start` if there is none. The end of the first micro-batch records its
        start: Spark stores it even if the batch is empty."""
        begin = StreamPosition.from_json(start)
        if begin != self._initial:
            self._initial = None  # the first micro-batch is over
        first = None if self._initial is None else begin.offsets
        nothing_new = start if first is None else StreamPosition(begin.offsets, begin.ids, first).to_json()
        latest = self._target or self._ends(begin.offsets)
        self._latest = latest
        known = self._with_new_partitions(begin, latest)
        end = latest.offsets
        if isinstance(limit, ReadMaxRows):
            end = share_out(limit.max_rows, known, end)
        if end == begin.offsets and latest.ids == begin.ids:
            return nothing_new
        if not isinstance(limit, ReadAllAvailable) and self._too_few(known, latest.offsets):
            return nothing_new
        return StreamPosition(end, latest.ids, first).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        return None if self._latest is None else self._latest.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        before, after = StreamPosition.from_json(start), StreamPosition.from_json(end)
        if after.start is not None:
            # The first batch, perhaps run again after a restart: Spark asked for the start again, but this is the one.
            before = StreamPosition(after.start, before.ids)
        known = self._with_new_partitions(before, after)
        self._check_losses(before.offsets, after.offsets)
        self._check_beginnings(known, before)
        return tasks_for(ranges_between(known, after.offsets), self._settings)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(partition, self._shape, self._settings)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has finished everything up to here: commit it to the group, for lag monitoring."""
        if self._settings.group is not None:
            link = link_to(**self._settings.client.link)
            commit_progress(link, self._settings.group, StreamPosition.from_json(end).offsets)

    def stop(self) -> None:
        """The connections belong to the process, and end with it.

        Spark ends a stream by closing the socket to this process. What runs us there would report the end of the socket
        to the socket, fail, and leave a BrokenPipeError with its traceback in the terminal of the user.
        """
        if isinstance(sys.exc_info()[1], EOFError):
            os._exit(0)

    def _ends(self, known: Offsets, *, recent: bool = True) -> StreamPosition:
        view = OffsetResolver(self._settings)
        assigned = view.assigned(recent=recent)
        return StreamPosition(view.latest(assigned.partitions, known), assigned.ids)

    def _with_new_partitions(self, begin: StreamPosition, end: StreamPosition) -> Offsets:
        """Start of each partition of `end`: new partitions, and those of a recreated topic, from their first record."""
        renewed = {topic for topic, known in begin.ids.items() if end.ids.get(topic, known) != known}
        if renewed:
            self._lose(f"topic {', '.join(sorted(renewed))} was deleted and recreated")
        new = [tp for tp in end.offsets if tp not in begin.offsets or tp.topic in renewed]
        if not new:
            return begin.offsets
        log.info("new partitions: %s", partitions_text(new))
        return {**begin.offsets, **OffsetResolver(self._settings).earliest(new)}

    def _check_losses(self, start: Offsets, end: Offsets) -> None:
        missing_partitions = set(start) - set(end)
        if missing_partitions:
            self._lose(f"{partitions_text(missing_partitions)} no longer exist")
        for tp, first in start.items():
            if tp in end and end[tp] < first:
                self._lose(f"{tp} ended at {first} before, and ends at {end[tp]} now")

    def _check_beginnings(self, known: Offsets, before: StreamPosition) -> None:
        """A partition created since then starts at 0; otherwise records were deleted unread."""
        late = [tp for tp, first in known.items() if first > 0 and tp not in before.offsets]
        if late:
            self._lose(f"{partitions_text(late)} are new, and their first records are already deleted")

    def _too_few(self, start: Offsets, end: Offsets) -> bool:
        """minOffsetsPerTrigger, with its delay, which Spark's Python API lacks."""
        wanted = self._settings.min_offsets
        if wanted is None or self._target is not None:
            return False
        now = time.monotonic()
        due = now - self._last_trigger >= self._settings.max_delay
        if not due and size_between(start, end) < wanted:
            return True
        self._last_trigger = now
        return False

    def _lose(self, what: str) -> None:
        if self._settings.fail_on_data_loss:
            raise DataLossError(what)
        log.warning("%s; continuing with the remaining records (failOnDataLoss is false)", what)


def commit_progress(link: BrokerLink, group: str, offsets: Offsets) -> None:
    """Commit the progress of a query as a consumer group, so that lag monitoring shows it.

    Never a reason for a query to fail: a restart goes by Spark's checkpoint alone.
    """
    try:
        link.run(commit_offsets(link.client, group, offsets))
    except (ClientError, KafkaError) as error:
        log.warning("failed to commit the progress of group %s: %s", group, error)
