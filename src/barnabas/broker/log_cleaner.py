"""Log cleaner: selects the next log to compact, runs the compaction in a worker process, and installs the result.

The event loop makes a plan, a worker process writes new segments next to the old ones, and the event loop swaps in
each one once it is ready. If the log is truncated or loses one of the segments, the plan is void and its output is
discarded.
Followers compact their own replicas, as in Kafka.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple, Protocol

from barnabas.broker.worker_process import JobCancelled, JobDiskFull, JobFailed, WorkerProcess
from barnabas.common.clock import Clock
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import LocalFileSystem
from barnabas.common.safe_logging import safe_logger
from barnabas.common.threads import ThreadBackground
from barnabas.config.broker import BrokerConfig
from barnabas.log import DISK_FULL, DiskFull, Log
from barnabas.log.compaction import (
    Candidate,
    CleanedGroup,
    CompactionLimits,
    CompactionResult,
    examine,
    find_sources,
    make_plan,
    remove_unfinished,
    swap_in,
)
from barnabas.log.dirs import LogManager
from barnabas.log.segments import BadBatch
from barnabas.metrics import Registry, Sample, catalogue

# -- Metrics of compaction ------------------------------------------------------------------------------


class LogCleanerMetrics:
    def __init__(self, registry: Registry, cleaner: LogCleaner) -> None:
        self._cleaner = cleaner
        self.max_dirty_ratio = 0.0
        self.last: CompactionResult | None = None
        self._rounds = registry.counter(catalogue.COMPACTIONS).labels()
        self._read_bytes = registry.counter(catalogue.COMPACTION_READ).labels()
        self._removed_bytes = registry.counter(catalogue.COMPACTION_REMOVED).labels()
        registry.read_by(catalogue.MAX_DIRTY_PERCENT, lambda: int(100 * self.max_dirty_ratio))
        registry.read_by(catalogue.CLEAN_SECONDS, lambda: self.last.seconds if self.last else 0)
        registry.read_by(catalogue.CLEAN_RECOPY, self._recopied_percent)
        registry.read_by(catalogue.CLEAN_MEMORY, lambda: 100 * self.last.memory_used if self.last else 0)
        registry.computed(catalogue.UNCLEANABLE_PARTITIONS, self._by_folder(lambda log: 1))
        registry.computed(catalogue.UNCLEANABLE_BYTES, self._by_folder(lambda log: log.size_bytes))

    def update(self, found: Iterable[Candidate]) -> None:
        self.max_dirty_ratio = max((candidate.dirty_ratio for candidate in found), default=0.0)

    def compacted(self, result: CompactionResult) -> None:
        self.last = result
        self._rounds.value += 1
        self._read_bytes.value += result.bytes_read
        self._removed_bytes.value += result.bytes_read - result.bytes_kept

    def _recopied_percent(self) -> float:
        last = self.last
        return 100 * last.bytes_kept / last.bytes_read if last and last.bytes_read else 0

    def _by_folder(self, count: Callable[[Log], int]) -> Callable[[], Iterator[Sample]]:
        def samples() -> Iterator[Sample]:
            totals: Counter[str] = Counter()
            for log in self._cleaner.uncleanable:
                totals[os.path.dirname(log.folder)] += count(log)
            for folder, total in sorted(totals.items()):
                yield Sample("", (("logdirectory", folder),), total)

        return samples


RETRY_MS = 10 * 60 * 1000
"""Retry delay after a failed compaction. Kafka does not retry before a restart."""
RETRY_WITHOUT_ROOM_MS = 30_000
"""Retry delay if the disk was full. Shorter, since space may be freed at any time."""
MIN_BACKOFF_MS = 100  # log.cleaner.backoff.ms may be 0, which would examine all logs continuously

logger = safe_logger(__name__)


class LogFlusher(Protocol):
    def when_flushed(self, log: Log, offset: int, callback: Callable[[ErrorCode], None]) -> None: ...


class Uncleanable(NamedTuple):
    reason: str
    retry_ms: int


class LogCleaner:
    def __init__(
        self,
        logs: LogManager,
        flusher: LogFlusher,
        threads: ThreadBackground,
        *,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        metrics: Registry,
    ) -> None:
        self._logs = logs
        self._flusher = flusher
        self._in_thread = threads.call
        self._config = config
        self._clock = clock
        self._rounds: dict[Log, asyncio.Task[None]] = {}
        self._idle: list[WorkerProcess] = []
        self._workers: list[WorkerProcess] = []  # busy and idle
        self._timer: asyncio.TimerHandle | None = None
        self._resting: asyncio.Task[None] | None = None
        self.uncleanable: dict[Log, Uncleanable] = {}
        self.metrics = LogCleanerMetrics(metrics, self)

    # -- start and stop -----------------------------------------------------------------------------

    def start(self) -> None:
        # Workers need files on disk; in-memory file systems are used in tests only.
        if self._config()["log.cleaner.enable"] and isinstance(self._logs.fs, LocalFileSystem):
            self._schedule()

    async def stop(self) -> None:
        """Stop the worker processes. Unfinished output is removed at the next start."""
        if self._timer is not None:
            self._timer.cancel()
        rounds = list(self._rounds.values())
        for task in rounds:
            task.cancel()
        await asyncio.gather(*rounds, return_exceptions=True)
        if self._resting is not None:
            await self._resting
        await asyncio.gather(*(worker.stop() for worker in self._workers))

    async def ended(self, log: Log) -> None:
        """Cancel the compaction of a log, and wait until its worker has ended and its unfinished files are removed."""
        while (task := self._rounds.get(log)) is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _stop_idle(self) -> None:
        while self._idle:
            await self._discard(self._idle.pop())

    def _worker(self) -> WorkerProcess:
        if self._idle:
            return self._idle.pop()
        worker = WorkerProcess()
        self._workers.append(worker)
        return worker

    async def _discard(self, worker: WorkerProcess) -> None:
        await worker.stop()
        self._workers.remove(worker)

    def _schedule(self, delay_ms: int | None = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        backoff: int = self._config()["log.cleaner.backoff.ms"]
        delay = max(backoff, MIN_BACKOFF_MS) if delay_ms is None else delay_ms
        self._timer = asyncio.get_running_loop().call_later(delay / 1000, self._examine_logs)

    # -- selecting logs -----------------------------------------------------------------------------

    def _examine_logs(self) -> None:
        """Start compacting the dirtiest logs, up to log.cleaner.threads at once. Without work, stop idle workers."""
        self._schedule()
        now_ms = self._clock.now_ms()
        self._forgive(now_ms)
        found = self._candidates(now_ms)
        self.metrics.update(found)
        worth_it = [candidate for candidate in found if candidate.is_worth_it]
        worth_it.sort(key=lambda candidate: candidate.dirty_ratio, reverse=True)
        free = self._config()["log.cleaner.threads"] - len(self._rounds)
        for candidate in worth_it[: max(free, 0)]:
            self._rounds[candidate.log] = asyncio.create_task(self._round(candidate.log))
        is_resting = self._resting is not None and not self._resting.done()
        if not self._rounds and self._idle and not is_resting:
            self._resting = asyncio.create_task(self._stop_idle())

    def _candidates(self, now_ms: int) -> list[Candidate]:
        found = []
        for log in self._logs:
            if log.config.compacted and log not in self._rounds and not self._is_left_alone(log):
                try:
                    candidate = examine(log, self._logs.cleaned_upto(log), now_ms)
                except (KafkaError, OSError, BadBatch) as error:
                    self._give_up(log, error)
                    continue
                if candidate is not None:
                    found.append(candidate)
        return found

    def _is_left_alone(self, log: Log) -> bool:
        return log in self.uncleanable or self._logs.moves.copying(log.topic_partition)

    def _forgive(self, now_ms: int) -> None:
        """Remove expired failures, and those of deleted logs."""
        for log, failure in list(self.uncleanable.items()):
            is_soon = 0 < failure.retry_ms - now_ms <= RETRY_MS  # False if the clock was set back
            if not is_soon or self._logs.get(log.topic_partition) is not log:
                del self.uncleanable[log]

    def _give_up(self, log: Log, error: Exception) -> None:
        """Skip a log until its retry time."""
        wait_ms = RETRY_WITHOUT_ROOM_MS if _is_disk_full(error) else RETRY_MS
        logger.error(
            "cannot compact %s: %s. Nothing was changed; the next attempt is in %d seconds.",
            log.topic_partition,
            error,
            wait_ms // 1000,
        )
        self.uncleanable[log] = Uncleanable(str(error), self._clock.now_ms() + wait_ms)

    # -- compacting one log -------------------------------------------------------------------------

    async def _round(self, log: Log) -> None:
        worker = self._worker()
        swapping = SegmentSwap(self._logs, self._clock, log, worker)
        try:
            await self._compact(log, worker, swapping)
        except JobCancelled:
            logger.info("%s changed during its compaction: the result is discarded", log.topic_partition)
        except Exception as error:
            if not isinstance(error, JobFailed | KafkaError | OSError):
                logger.exception("unexpected error during the compaction of %s", log.topic_partition)
            if swapping.is_valid:  # otherwise the failure is a consequence of the deletion or truncation
                self._give_up(log, error)
        finally:
            await self._in_thread(lambda: remove_unfinished(log.fs, log.folder))
            del self._rounds[log]
            self._idle.append(worker)
        self._schedule(0)

    async def _compact(self, log: Log, worker: WorkerProcess, swapping: SegmentSwap) -> None:
        await self._make_durable(log)
        if not swapping.is_valid:
            return
        now_ms = self._clock.expiry_ms()  # for the expiry of tombstones
        candidate = examine(log, self._logs.cleaned_upto(log), now_ms)
        if candidate is None:
            return
        result = await worker.run(make_plan(candidate, self._effort(), now_ms), swapping.swap)
        # The swap must be durable before the checkpoint: otherwise a crash could leave dirty keys below it for good.
        await self._in_thread(lambda: _sync_folder(log))
        if swapping.is_valid:
            self._logs.note_cleaned(log, result.cleaned_upto)
            self._report(log, result)
            await self._in_thread(self._logs.checkpoint_job(log).run)

    async def _make_durable(self, log: Log) -> None:
        """Flush and checkpoint the closed segments before compaction. Recovery treats gaps above the recovery point as
        lost records."""
        flushed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: ErrorCode) -> None:
            if not flushed.done():
                flushed.set_result(None)

        self._flusher.when_flushed(log, log.active.base_offset, done)
        await flushed
        if self._logs.get(log.topic_partition) is log:
            await self._in_thread(self._logs.checkpoint_job(log).run)

    def _effort(self) -> CompactionLimits:
        config = self._config()
        workers = max(config["log.cleaner.threads"], 1)
        return CompactionLimits(
            config["log.cleaner.dedupe.buffer.size"] // workers,
            config["log.cleaner.io.max.bytes.per.second"] / workers,
        )

    def _report(self, log: Log, result: CompactionResult) -> None:
        self.metrics.compacted(result)
        logger.info(
            "compacted %s up to offset %d: retained %d of %d bytes and %d of %d records, in %.1f s",
            log.topic_partition,
            result.cleaned_upto,
            result.bytes_kept,
            result.bytes_read,
            result.records_kept,
            result.records_read,
            result.seconds,
        )


def _is_disk_full(error: Exception) -> bool:
    return isinstance(error, DiskFull | JobDiskFull) or (
        isinstance(error, OSError) and error.errno in DISK_FULL
    )


def _sync_folder(log: Log) -> None:
    with log.storage_errors(harmless=()), suppress(FileNotFoundError):  # the log may have been deleted
        log.fs.sync_folder(log.folder)


class SegmentSwap:
    """Swaps in the segments of one round while its plan is valid."""

    def __init__(self, logs: LogManager, clock: Clock, log: Log, worker: WorkerProcess) -> None:
        self._logs = logs
        self._clock = clock
        self._log = log
        self._worker = worker
        self._generation = log.generation
        self._is_void = False

    @property
    def is_valid(self) -> bool:
        log = self._log
        logs = self._logs
        is_there = logs.get(log.topic_partition) is log and log.disk.error is None
        if logs.moves.copying(log.topic_partition):
            return False  # the copy contains some of the old segments
        return is_there and log.generation == self._generation and not self._is_void

    def swap(self, group: CleanedGroup) -> None:
        sources = find_sources(self._log, group.sources) if self.is_valid else None
        if sources is None:
            self._is_void = True
            self._worker.cancel()
            return
        swap_in(self._log, sources, group.size, self._clock.now_ms())
