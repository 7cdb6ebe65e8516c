"""Follows `_schemas`: replays every committed record, in order, while the registry runs.

Other programs write to the topic too: an unreadable record is logged and skipped.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence

from barnabas.client import (
    Client,
    ClientError,
    FetchedPartition,
    FetchSettings,
    check_batch,
    fetch,
    raise_for,
)
from barnabas.client.offsets import READ_COMMITTED, beginning_offsets, end_offsets
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.retry import Backoff
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition
from barnabas.records import AbortedTransactions, Record, iterate_records
from barnabas.records.batch import BatchHeader, iterate_headers
from barnabas.services.registry.state import NOT_TRANSACTIONAL, RegistryState

logger = safe_logger(__name__)

SLICE_SECONDS = 0.005  # CPU time between yields to the event loop
Entries = list[tuple[bytes, bytes | None]]  # keys and values
SETTINGS = FetchSettings(isolation=READ_COMMITTED, partition_bytes=8 * 1024 * 1024)


class ReaderEndedError(ClientError):
    """The task that follows the topic ended with an unexpected error; the log has the traceback."""

    def __init__(self) -> None:
        super().__init__("the registry no longer follows its topic; see its log and restart it")


class SchemaReader:
    """Replays the topic into the state. Needs a dedicated `client`, as a waiting fetch blocks the connection.

    `died` is called if the task that follows the topic ends.
    """

    def __init__(
        self,
        client: Client,
        state: RegistryState,
        tp: TopicPartition,
        died: Callable[[asyncio.Task[None]], None],
    ) -> None:
        self.client = client
        self.state = state
        self.tp = tp
        self.position = 0  # next offset; all earlier records are in the state
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._died = died
        self._expected: Entries | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, asker: Client) -> None:
        """Start following; returns once the records present at the start are replayed."""
        self._task = asyncio.create_task(self._follow())
        self._task.add_done_callback(self._end)
        await self.catch_up(asker)

    async def close(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def catch_up(self, asker: Client) -> None:
        """Wait until all records committed so far are replayed; `asker` is a client without blocking requests."""
        ends = await end_offsets(asker, [self.tp], READ_COMMITTED)
        await self.reached(ends[self.tp])

    async def reached(self, offset: int) -> None:
        """Wait until all records before this offset are replayed."""
        if self._task is not None and self._task.done():
            raise ReaderEndedError
        if self.position < offset:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((offset, future))
            await future

    async def wait_until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Wait until the replayed state fulfils the condition; TimeoutError after `seconds`."""
        async with asyncio.timeout(seconds):
            while not condition():
                await self.reached(self.position + 1)

    def expect(self, entries: Entries) -> None:
        """Watch for a committed batch with exactly these records; `has_seen` is True once it was replayed."""
        self._expected = entries

    @property
    def has_seen(self) -> bool:
        return self._expected is None

    def _end(self, task: asyncio.Task[None]) -> None:
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(ReaderEndedError())
        self._waiting.clear()
        self._died(task)

    async def _follow(self) -> None:
        backoff = Backoff()
        while True:
            try:
                await self._fetch()
                backoff.reset()
            except (ClientError, KafkaError) as error:
                logger.warning("cannot read %s; retrying: %s", self.tp.topic, error)
                await asyncio.sleep(backoff.next_delay())
                await self.client.refresh_quietly([self.tp.topic])

    async def _fetch(self) -> None:
        leader = await self.client.leader(self.tp)
        (fetched,) = await fetch(self.client, leader, {self.tp: self.position}, SETTINGS)
        if fetched.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.position = (await beginning_offsets(self.client, [self.tp]))[self.tp]
            return
        raise_for(fetched.error, str(self.tp))
        await self._replay(fetched)
        self._wake()

    async def _replay(self, fetched: FetchedPartition) -> None:
        aborted, began = AbortedTransactions(fetched.aborted), time.thread_time()
        for start, header in iterate_headers(fetched.records):
            batch = fetched.records[start : start + header.size]
            check_batch(self.tp, batch, header)
            hidden = aborted.hide(batch, header)
            if not header.is_control:
                self._replay_batch(header, list(iterate_records(batch, header)), hidden=hidden)
            self.position = max(self.position, header.next_offset)
            if time.thread_time() - began > SLICE_SECONDS:
                await asyncio.sleep(0)
                began = time.thread_time()

    def _replay_batch(self, header: BatchHeader, records: Sequence[Record], *, hidden: bool) -> None:
        """Replay a batch. Records of aborted transactions (`hidden`) only reserve their ids."""
        producer_id = header.producer_id if header.is_transactional else NOT_TRANSACTIONAL
        for record in records:
            if record.offset < self.position:
                continue
            try:
                if hidden:
                    self.state.note_id(record.key, record.value)
                else:
                    self.state.replay(record.key, record.value, producer_id)
            except Exception as error:  # an invalid record of another program must not stop the registry
                text = "skipping the invalid record at offset %d of %s: %s: %s"
                logger.error(text, record.offset, self.tp.topic, type(error).__name__, str(error)[:200])
        is_awaited = not hidden and self._expected is not None
        if is_awaited and [(one.key, one.value) for one in records] == self._expected:
            self._expected = None

    def _wake(self) -> None:
        still = []
        for offset, future in self._waiting:
            if offset > self.position:
                still.append((offset, future))
            elif not future.done():
                future.set_result(None)
        self._waiting = still
