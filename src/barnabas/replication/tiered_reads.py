"""Reads of remote segments, delayed like reads of cold pages.

An offset between log start and local start is cold unless its chunk is in memory: `load` downloads the chunk. A fetch
waits for all of its partitions, for at most `remote.fetch.max.wait.ms`: partitions still missing are returned empty,
and the download continues. Errors are delayed by half a second, because clients retry immediately.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from barnabas.common.clock import Timers
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.log import FoundRecord
from barnabas.replication.cold_reads import ColdRead, ColdReads, ReadablePartition, ReadKey
from barnabas.replication.flusher import BackgroundThread
from barnabas.tiering.reading import RemoteBatch

MAX_PARTITIONS = 50
"""Chunks downloaded per fetch: a response of 50 MiB has no room for more."""
ERROR_SECONDS = 0.5


class RemoteLimits(NamedTuple):
    """Timeouts of readers of the object store."""

    fetch_seconds: float  # remote.fetch.max.wait.ms
    list_offsets_seconds: float  # remote.list.offsets.request.timeout.ms


class TieredReads(ColdReads):
    """Cold reads of a broker with tiered storage."""

    has_remote = True

    def __init__(
        self, background: BackgroundThread, timers: Timers, limits: Callable[[], RemoteLimits]
    ) -> None:
        super().__init__(background)
        self._timers = timers
        self._limits = limits
        self._tasks: dict[ReadKey, asyncio.Task[RemoteBatch]] = {}
        self.expired = 0
        """Fetches that were answered before all data had arrived."""
        self.expired_searches = 0

    def load(self, reads: Iterable[ColdRead], done: Callable[[], None]) -> None:
        remote = [each for each in reads if each.remote is not None]
        local = [each for each in reads if each.remote is None]
        if not remote:
            super().load(local, done)
            return
        wait = _RemoteWait(self._timers, self._limits().fetch_seconds, done, self._note_expired)
        wait.outstanding = 1  # until all have started
        if local:
            wait.outstanding += 1
            super().load(local, wait.one_done)
        for each in remote[:MAX_PARTITIONS]:
            wait.outstanding += 1
            self._loading(each).add_done_callback(partial(wait.loaded, each))
        wait.one_done()

    def _loading(self, read: ColdRead) -> asyncio.Task[RemoteBatch]:
        """The one download task for this chunk: repeated requests share it."""
        assert read.remote is not None
        key = read.key
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(read.remote.load(read.offset))
            task.add_done_callback(lambda _: self._tasks.pop(key, None))
        return task

    def _note_expired(self) -> None:
        self.expired += 1

    async def remote_offset_for_timestamp(
        self, partition: ReadablePartition, timestamp: int, timeout_ms: int = 0
    ) -> FoundRecord | None:
        part, remote = partition.log.remote_part, partition.remote
        if part is None or remote is None:
            return None
        seconds = timeout_ms / 1000 if timeout_ms > 0 else self._limits().list_offsets_seconds
        try:
            async with asyncio.timeout(seconds):
                return await remote.offset_for_timestamp(timestamp, *part)
        except TimeoutError as late:
            self.expired_searches += 1
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, f"the object store is slow: no result within {seconds:g} s"
            ) from late

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _RemoteWait:
    """One fetch, until all data have arrived or its deadline."""

    def __init__(
        self, timers: Timers, seconds: float, done: Callable[[], None], expired: Callable[[], None]
    ) -> None:
        self.outstanding = 0
        self._done: Callable[[], None] | None = done
        self._expired = expired
        self._has_failed = False
        self._is_error_due = False
        self._timer = timers.call_later(seconds, self._expire)
        self._error_timer = timers.call_later(min(ERROR_SECONDS, seconds), self._let_errors_out)

    def loaded(self, read: ColdRead, task: asyncio.Task[RemoteBatch]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            read.batch = task.result()
        else:
            self._has_failed = True
            read.error = error if isinstance(error, KafkaError) else _unexpected(error)
        self.one_done()

    def one_done(self) -> None:
        self.outstanding -= 1
        self._finish_if_complete()

    def _let_errors_out(self) -> None:
        self._is_error_due = True
        self._finish_if_complete()

    def _finish_if_complete(self) -> None:
        if not self.outstanding and (self._is_error_due or not self._has_failed):
            self._finish()

    def _expire(self) -> None:
        if self._done is not None:
            self._expired()
            self._finish()

    def _finish(self) -> None:
        done, self._done = self._done, None
        self._timer.cancel()
        self._error_timer.cancel()
        if done is not None:
            done()


def _unexpected(error: BaseException) -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"a remote segment cannot be read: {error!r}")
