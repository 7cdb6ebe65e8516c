"""Spark's writers: they run the programs of `protocol.py` in the processes that Spark starts.

Spark creates a writer for each batch in a worker of the driver and pickles it for the tasks; it creates another one, in
another process, to commit. So the constructor does nothing. The batch is planned when the writer is pickled, before any
task can start, and the committing side gets its information from the tasks' messages.
"""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from barnabas.client import UnsupportedApiError
from barnabas.client.producing import (
    FENCED,
    NO_PRODUCER_ID,
    BatchProducer,
    ProducerIdentity,
    TransactionalBatchProducer,
    TransactionRequests,
    init_producer_id,
)
from barnabas.common.errors import KafkaError
from barnabas.records import Block
from barnabas.spark.broker_link import BrokerLink, link_to
from barnabas.spark.sink import protocol
from barnabas.spark.sink.driver import BatchOrigin, SinkDriver, own_names, owner_of_this_process
from barnabas.spark.sink.protocol import Batch, SinkError, Ticket
from barnabas.spark.sink.settings import SinkSettings, digest
from barnabas.spark.sink.state import TaskTransaction
from barnabas.spark.worker_process import begin_task, set_modules_aside

SWEEP_SECONDS = 10.0
# Other tasks of a failed job may continue for a while: Spark gives a Python worker two seconds to exit.
STRAGGLERS_SECONDS = 3.0
SWEEP_AGAIN_SECONDS = 0.25

_drivers: dict[tuple[int, int, str], SinkDriver] = {}
_swept: dict[str, tuple[str, float]] = {}  # by sink: the start of the query, and when


@dataclass
class Written(WriterCommitMessage):
    """Result of one task."""

    run: int = 0
    query: str = ""
    start: str = ""
    is_repeated: bool = False  # an earlier attempt may have left a transaction open
    part: TaskTransaction | None = None
    blocks: list[Block] = field(default_factory=list)


def driver_for(settings: SinkSettings, sink: str) -> tuple[BrokerLink, SinkDriver]:
    """Link and driver of this process, kept between batches; those of a job, which has no stable name, are not."""
    link = link_to(**settings.client.link)
    key = (os.getpid(), id(link), sink)
    driver = _drivers.get(key) or SinkDriver(link.client, sink)
    if sink == settings.sink:
        _drivers[key] = driver
    return link, driver


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "a task of Spark has a context"
    return context


class _PlannedWhenPickled:
    """Spark pickles a writer for its tasks before any of them can start."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._task: WriterTask | None = None

    def __getstate__(self) -> dict[str, Any]:
        if self._task is None:
            set_modules_aside()
            self._task = self._plan()
        return self.__dict__

    def _plan(self) -> WriterTask:
        raise NotImplementedError


class _QueryWriter(_PlannedWhenPickled):
    """One batch of a query, identified by its number."""

    @property
    def _owner(self) -> str:
        """Two queries of one Spark that share a sinkId have different checkpoints, or ids."""
        return f"{owner_of_this_process()}/{digest(self._settings.checkpoint or self._settings.batch_of)}"

    def _plan(self) -> WriterTask:
        if not self._settings.is_exactly_once:
            return WriterTask(self._settings)
        link, driver = driver_for(self._settings, self._settings.sink)
        ticket = link.run(driver.run(protocol.plan(self._owner, self._settings.torn)))
        timeout = self._settings.timeout_ms or link.run(driver.longest_timeout())
        return WriterTask(self._settings, self._settings.sink, ticket, timeout)

    def _give_up(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._settings.is_exactly_once:
            link, driver = driver_for(self._settings, self._settings.sink)
            written = [message for message in messages if isinstance(message, Written)]
            start = written[0].start if written else ""
            parts = tuple(message.part for message in written if message.part is not None)
            link.run(driver.run(protocol.abort(self._owner, start, parts)))


class StreamWriter(_QueryWriter, DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        assert self._task is not None
        context = _context()
        query = context.getLocalProperty("sql.streaming.queryId") or ""
        batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        return self._task.write(iterator, Written(query=query, start=_start_of(context)), batch)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        set_modules_aside()
        if self._settings.is_exactly_once:
            _commit(self._settings, self._settings.sink, messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        self._give_up(messages)


class NumberedWriter(_QueryWriter, DataSourceArrowWriter):
    """A micro-batch written by `foreachBatch`: a separate job to Spark, a batch of a query to the sink."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        assert self._task is not None
        settings = self._settings
        written = Written(query=settings.batch_of, start=_start_of(_context()))
        return self._task.write(iterator, written, settings.batch_number)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        set_modules_aside()
        _commit(self._settings, self._settings.sink, messages, self._settings.batch_number)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._task is not None:
            self._give_up(messages)


def _start_of(context: TaskContext) -> str:
    return context.getLocalProperty("spark.jobGroup.id") or ""  # the query's runId


class BatchWriter(_PlannedWhenPickled, DataSourceArrowWriter):
    """One job: all of its rows or none. Its state is deleted afterwards, unless a `sinkId` identifies a retry."""

    def __init__(self, settings: SinkSettings) -> None:
        super().__init__(settings)
        self._job = uuid.uuid4().hex

    @property
    def _sink(self) -> str:
        return self._settings.sink or f"batch-{self._job}"

    def _plan(self) -> WriterTask:
        if not self._settings.is_exactly_once:
            return WriterTask(self._settings)
        link, driver = driver_for(self._settings, self._sink)
        ticket = Ticket(run=0)
        if self._settings.sink:
            ticket = link.run(driver.run(protocol.plan(self._job, self._settings.torn)))
        timeout = self._settings.timeout_ms or link.run(driver.longest_timeout())
        return WriterTask(self._settings, self._sink, ticket, timeout, without_timeout=False)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        assert self._task is not None
        return self._task.write(iterator, Written(query=self._job, start=self._job), 0)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._settings.is_exactly_once:
            _commit(self._settings, self._sink, messages, 0, is_last=not self._settings.sink)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._settings.is_exactly_once and self._task is not None:
            link, driver = driver_for(self._settings, self._sink)
            # A job without a sinkId cannot be resumed: abort, so that consumers do not wait for it.
            give_up = protocol.give_up if self._settings.sink else protocol.sweep
            end = time.monotonic() + STRAGGLERS_SECONDS
            while True:
                link.run(driver.run(give_up(self._task.ticket.run)))
                if time.monotonic() >= end:
                    return
                time.sleep(SWEEP_AGAIN_SECONDS)


def _commit(
    settings: SinkSettings,
    sink: str,
    messages: list[WriterCommitMessage | None],
    number: int,
    *,
    is_last: bool = False,
) -> None:
    written = [message for message in messages if isinstance(message, Written)]
    parts = tuple(message.part for message in written if message.part is not None)
    rows = tuple(block for message in written for block in message.blocks)
    if not parts and not rows:
        return  # nothing was written, and a rerun would write nothing
    link, driver = driver_for(settings, sink)
    first = written[0]
    batch = Batch(number, first.query, first.run, parts, rows, first.start, is_last)
    link.run(driver.run(protocol.commit(batch)))
    is_repeated = any(message.is_repeated for message in written)
    if is_last and is_repeated:
        link.run(driver.run(protocol.sweep(first.run)))
    elif not is_last and (is_repeated or _is_time_to_tidy(sink, first.start)):
        _swept[sink] = first.start, time.monotonic()
        link.run(driver.run(protocol.tidy(first.run)))


def _is_time_to_tidy(sink: str, start: str) -> bool:
    """Periodically, and once per start: tasks of the previous start may have opened transactions after its end."""
    swept_for, when = _swept.get(sink, ("", 0.0))
    return start != swept_for or time.monotonic() - when > SWEEP_SECONDS


@dataclass
class WriterTask:
    """Information for a task; sent to it with the writer."""

    settings: SinkSettings
    sink: str = ""
    ticket: Ticket = field(default_factory=lambda: Ticket(0))
    timeout_ms: int = 0
    without_timeout: bool = True

    def write(self, rows: Iterator[pa.RecordBatch], written: Written, batch: int) -> Written:
        written.run, written.is_repeated = self.ticket.run, _context().attemptNumber() > 0
        if self.settings.is_exactly_once and self.ticket.has(written.query, batch):
            for _ in rows:
                pass
            return written
        begin_task()
        link = link_to(**self.settings.client.link)
        return link.run(self._write(link, rows, written, batch))

    async def _write(
        self, link: BrokerLink, rows: Iterator[pa.RecordBatch], written: Written, batch: int
    ) -> Written:
        from barnabas.spark.sink.rows import (
            RowEncoder,
        )  # numba: takes a second that the driver need not spend

        encoder = RowEncoder(link.client, self.settings, rows)
        blocks = await encoder.next_blocks()
        if blocks is None:
            return written
        following = await encoder.next_blocks()
        if following is None and self._may_hand_over(blocks):
            written.blocks = blocks
            return written
        origin = (self.sink, self.ticket.run, written.start, batch)
        producer = await self._producer(link, origin)
        while blocks is not None:
            ahead = asyncio.ensure_future(encoder.next_blocks()) if following is not None else None
            try:
                await producer.send(blocks)
            except KafkaError as error:
                if self.settings.is_exactly_once and error.code in FENCED:
                    raise protocol.ended_elsewhere() from error
                raise
            finally:
                # The thread that reads Spark's rows must have ended before this task does.
                upcoming = await ahead if ahead is not None else None
            blocks, following = following, upcoming
        if isinstance(producer, TransactionalBatchProducer):
            identity, name = producer.identity, producer.transactional_id or ""
            own_names().keep(name, *origin)
            written.part = TaskTransaction(name, identity.producer_id, identity.epoch)
        return written

    def _may_hand_over(self, blocks: list[Block]) -> bool:
        size = sum(len(block.data) for block in blocks)
        return self.settings.is_exactly_once and size <= self.settings.handed_over

    async def _producer(self, link: BrokerLink, origin: BatchOrigin) -> BatchProducer:
        if not self.settings.is_exactly_once:
            return BatchProducer(
                link.client, await _idempotent(link, self.settings.acks), acks=self.settings.acks
            )
        name = own_names().take(*origin)
        transactions = TransactionRequests(link.client)

        async def initialize() -> ProducerIdentity:
            return await transactions.initialize(name, self.timeout_ms, without_timeout=self.without_timeout)

        try:
            identity = await initialize()
        except UnsupportedApiError as error:
            raise SinkError(
                f"{error}: this broker has no transactions; set 'delivery' to 'at-least-once'"
            ) from error
        return TransactionalBatchProducer(transactions, identity, name, initialize)


async def _idempotent(link: BrokerLink, acks: int) -> ProducerIdentity:
    """Retries cause no duplicates if the broker supports it; rerun tasks still may."""
    if acks != -1:
        return NO_PRODUCER_ID

    try:
        return await init_producer_id(link.client)
    except UnsupportedApiError:
        return NO_PRODUCER_ID
