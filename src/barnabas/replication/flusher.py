"""Group fsync: many acknowledgements share one flush.

At most one flush per log is in flight. Requests that arrive meanwhile join the next one, so that a slow disk makes
the groups larger and not the queue longer. A failed flush is never retried: the kernel may already have dropped the
dirty pages, so the log dir goes offline and every waiter gets the error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.log import DiskFull, FlushJob, Log

FlushCallback = Callable[[ErrorCode], None]


class BackgroundThread(Protocol):
    """Runs a blocking call that releases the GIL in a thread, then calls `done(error)` on the event loop."""

    def run(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None: ...


class Flusher:
    def __init__(self, background: BackgroundThread, on_failure: Callable[[Log, Exception], None]) -> None:
        self._background = background
        self._on_failure = on_failure
        self._waiting: dict[Log, list[tuple[int, FlushCallback]]] = {}
        self._in_flight: set[Log] = set()
        self._held: dict[Log, Callable[[], None]] = {}

    def when_flushed(self, log: Log, offset: int, callback: FlushCallback) -> None:
        """Call back once everything below `offset` is on disk."""
        if log.flushed_offset >= offset:
            callback(ErrorCode.NONE)
            return
        self._waiting.setdefault(log, []).append((offset, callback))
        if log not in self._in_flight:
            self._start(log)

    def flush(self, log: Log) -> None:
        """Flush without a waiter (flush.messages, flush.ms, a sealed segment)."""
        if log not in self._in_flight:
            self._start(log)

    def hold(self, log: Log, ready: Callable[[], None]) -> None:
        """Start no flush of the log until `release`; `ready` is called once none is in flight."""
        self._held[log] = ready
        if log not in self._in_flight:
            ready()

    def release(self, log: Log) -> None:
        del self._held[log]
        if log in self._waiting and log not in self._in_flight:
            self._start(log)

    def _start(self, log: Log) -> None:
        if log.is_abandoned:
            self._reject(log)
            return
        if log in self._held:
            return
        try:
            job = log.prepare_flush()
        except KafkaError as error:
            self._fail(log, error)
            return
        self._in_flight.add(log)
        self._background.run(job.run, lambda error: self._finish(log, job, error))

    def _finish(self, log: Log, job: FlushJob, error: OSError | None) -> None:
        self._in_flight.discard(log)
        if (ready := self._held.get(log)) is not None:
            ready()
        if log.is_abandoned:
            self._reject(log)
            return
        if error is not None:
            self._fail(log, error)
            return
        log.complete_flush(job)
        waiting, flushed = self._waiting.pop(log, []), log.flushed_offset
        later = [(offset, callback) for offset, callback in waiting if offset > flushed]
        if later:
            self._waiting[log] = later
            self._start(log)
        for offset, callback in waiting:  # a callback may truncate the log, and lower its flushed offset
            if offset <= flushed:
                callback(ErrorCode.NONE)

    def _reject(self, log: Log) -> None:
        """Fail the waiters: the partition was deleted or moved away, or its disk failed, and no flush will follow."""
        error = (
            ErrorCode.KAFKA_STORAGE_ERROR if log.disk.error is not None else ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        for _, callback in self._waiting.pop(log, []):
            callback(error)

    def _fail(self, log: Log, error: Exception) -> None:
        waiting = self._waiting.pop(log, [])
        if not isinstance(error, DiskFull):  # then nothing was lost, and the next flush may succeed
            self._on_failure(log, error)
        for _, callback in waiting:
            callback(ErrorCode.KAFKA_STORAGE_ERROR)
