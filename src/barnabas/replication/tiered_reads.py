"""Reads of remote segments, delayed like reads of cold pages.

An offset between log start and local start is cold: `warm` downloads its chunk, and the fetch reads it afterwards.
The fetch waits for all of its partitions, for at most `remote.fetch.max.wait.ms`: partitions still missing are
returned empty, and the download continues. Errors are delayed by half a second, because clients retry immediately.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from barnabas.common.clock import Timers
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.log import Log
from barnabas.log.reader import FoundRecord
from barnabas.replication.cold_reads import ColdReads
from barnabas.replication.flusher import BackgroundThread
from barnabas.tiering.reading import RemoteLog, RemoteRead

MAX_PARTITIONS = 50
"""Chunks downloaded per fetch: a response of 50 MiB has no room for more."""
ERROR_SECONDS = 0.5


class RemoteParts(Protocol):
    """The remote parts of all partitions of a broker."""

    def remote_log(self, log: Log) -> RemoteLog | None:
        """The remote log; None if the log has no remote part here."""
        ...


class RemoteLimits(NamedTuple):
    """Timeouts of readers of the object store."""

    fetch_seconds: float  # remote.fetch.max.wait.ms
    list_offsets_seconds: float  # remote.list.offsets.request.timeout.ms


class TieredReads(ColdReads):
    """Cold reads of a broker with tiered storage."""

    has_remote = True

    def __init__(
        self,
        background: BackgroundThread,
        parts: RemoteParts,
        timers: Timers,
        limits: Callable[[], RemoteLimits],
    ) -> None:
        super().__init__(background)
        self._parts = parts
        self._timers = timers
        self._limits = limits
        self._tasks: dict[tuple[Log, int], asyncio.Task[object]] = {}
        self.expired = 0
        """Fetches that were answered before all data had arrived."""
        self.expired_searches = 0

    def is_cold(self, log: Log, offset: int) -> bool:
        if not _is_remote(log, offset):
            return super().is_cold(log, offset)
        remote = self._parts.remote_log(log)
        return remote is None or not remote.is_in_memory(offset)

    def warm(self, reads: list[tuple[Log, int, int]], done: Callable[[], None]) -> None:
        remote = [(log, offset) for log, offset, _ in reads if _is_remote(log, offset)]
        if not remote:
            super().warm(reads, done)
            return
        wait = _RemoteWait(self._timers, self._limits().fetch_seconds, done, self._note_expired)
        wait.outstanding = 1  # until all have started
        local = [read for read in reads if not _is_remote(read[0], read[1])]
        if local:
            wait.outstanding += 1
            super().warm(local, wait.one_done)
        for log, offset in remote[:MAX_PARTITIONS]:
            wait.outstanding += 1
            self._loading(log, offset).add_done_callback(wait.loaded)
        wait.one_done()

    def _loading(self, log: Log, offset: int) -> asyncio.Task[object]:
        """The one download task for this chunk: repeated requests share it."""
        key = log, offset
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(self.load_remote(log, offset))
            task.add_done_callback(lambda _: self._tasks.pop(key, None))
        return task

    def _note_expired(self) -> None:
        self.expired += 1

    def read_remote(
        self, log: Log, offset: int, max_bytes: int, *, committed: bool = False, at_least_one: bool = True
    ) -> RemoteRead | None:
        remote = self._remote_log(log)
        return remote.read_prepared(offset, max_bytes, committed=committed, at_least_one=at_least_one)

    async def load_remote(self, log: Log, offset: int) -> object:
        return await self._remote_log(log).prepare(offset)

    async def remote_offset_for_timestamp(
        self, log: Log, timestamp: int, timeout_ms: int = 0
    ) -> FoundRecord | None:
        part = log.remote_part
        if part is None:
            return None
        seconds = timeout_ms / 1000 if timeout_ms > 0 else self._limits().list_offsets_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._remote_log(log).offset_for_timestamp(timestamp, *part)
        except TimeoutError as late:
            self.expired_searches += 1
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, f"the object store is slow: no result within {seconds:g} s"
            ) from late

    def _remote_log(self, log: Log) -> RemoteLog:
        remote = self._parts.remote_log(log)
        if remote is None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the remote log of {log.topic_partition} is not known on this broker",
            )
        return remote

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _is_remote(log: Log, offset: int) -> bool:
    return log.offsets.start <= offset < log.offsets.local_start


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
        self._holds: list[object] = []  # keeps downloaded data in memory until they are read
        self._timer = timers.call_later(seconds, self._expire)
        self._error_timer = timers.call_later(min(ERROR_SECONDS, seconds), self._let_errors_out)

    def loaded(self, task: asyncio.Task[object]) -> None:
        if task.cancelled():
            return
        if task.exception() is not None:
            self._has_failed = True
        elif self._done is not None:
            self._holds.append(task.result())
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
        self._holds.clear()
