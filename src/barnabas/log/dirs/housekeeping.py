"""Periodic work on the logs of a broker: retention, expiry of producers, removal of files, checkpoints, flushes.

There may be tens of thousands of logs, so a round is a generator of short steps, and requests are served in between.
Logs may be created, deleted, rolled and truncated between two steps; no step relies on the state of an earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from barnabas.common.errors import KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.config.broker import BrokerConfig
from barnabas.log.failures import DiskFull
from barnabas.log.retention import ages_to_learn
from barnabas.log.segments.scan import BadBatch
from barnabas.log.segments.segment import Segment
from barnabas.log.tiering.retention import is_due_for_copying

if TYPE_CHECKING:
    from barnabas.log.dirs.manager import LogManager
    from barnabas.log.log import Log

logger = safe_logger(__name__)


def run_inline(work: Callable[[], None]) -> None:
    work()


class PeriodicTimer:
    """Timer of a periodic task; it is due for the first time after `delay_ms` or one interval, whichever is less."""

    def __init__(self, interval_ms: int, delay_ms: int) -> None:
        self._interval_ms = interval_ms
        self._delay_ms = min(delay_ms, interval_ms)
        self._next_ms: int | None = None

    def is_due(self, now_ms: int) -> bool:
        """True at most once per interval."""
        if self._next_ms is None:
            self._next_ms = now_ms + self._delay_ms
        set_back = self._next_ms - now_ms > self._interval_ms  # the clock was set back
        if now_ms < self._next_ms and not set_back:
            return False
        self._next_ms = now_ms + self._interval_ms
        return True


SEGMENTS_AT_ONCE = 16  # removed in one step: about four renames each, a millisecond in total
PRODUCERS_AT_ONCE = 1000  # checked in one step, about a millisecond
MAX_ROLL_CHECK_MS = 60_000
LOGS_AT_ONCE = 64  # per step, if the work per log is small


class Housekeeping:
    """Runs `steps` about once a second. Slow disk operations are passed to `background`."""

    def __init__(self, logs: LogManager, config: BrokerConfig) -> None:
        self._logs = logs
        self.background: Callable[[Callable[[], None]], None] = run_inline
        self.producer_expiration_ms: int = config["producer.id.expiration.ms"]
        delay_ms: int = config["log.initial.task.delay.ms"]
        self._retention = PeriodicTimer(config["log.retention.check.interval.ms"], delay_ms)
        self._expiry = PeriodicTimer(config["producer.id.expiration.check.interval.ms"], delay_ms)
        # All three files are written together, if they have changed.
        self._checkpoint = PeriodicTimer(
            min(
                config["log.flush.offset.checkpoint.interval.ms"],
                config["log.flush.start.offset.checkpoint.interval.ms"],
                config["replica.high.watermark.checkpoint.interval.ms"],
            ),
            delay_ms,
        )
        self._remote_roll_ms: int = config["barnabas.remote.roll.ms"]
        self._remote_roll = PeriodicTimer(min(self._remote_roll_ms, MAX_ROLL_CHECK_MS), delay_ms)
        self._last_ms = 0
        self._removals: list[tuple[int, str]] = []
        self._to_be_flushed: dict[Log, None] = {}

    def steps(self, now_ms: int) -> Iterator[list[Log]]:
        """Run all tasks that are due; each step yields the logs that need a flush, mostly none."""
        self._notice_clock(now_ms)
        clock = self._logs.clock
        expiry_ms = now_ms - (clock.now_ms() - clock.expiry_ms())
        if self._retention.is_due(now_ms):
            for log in self._each():
                yield from self._retain(log, expiry_ms)
        if self._remote_roll.is_due(now_ms):
            yield from self._seal_for_copying(now_ms)
        if self._expiry.is_due(now_ms):
            for log in self._each():
                yield from self._expire_producers(log, expiry_ms)
        yield from self._collect_garbage()
        self._remove(now_ms)
        if self._checkpoint.is_due(now_ms):
            for job in self._checkpoint_jobs():
                self.background(partial(_write_unless_disk_full, job))
                yield []
        yield from self._to_flush(now_ms)

    def _notice_clock(self, now_ms: int) -> None:
        """Move due times back when the clock was set back, so that removals are not delayed by hours."""
        for log_dir in self._logs.dirs:
            log_dir.disk.notice(now_ms)
        set_back, self._last_ms = self._last_ms - now_ms, now_ms
        if set_back > 0:
            self._removals = [(when - set_back, path) for when, path in self._removals]

    def _each(self) -> Iterator[Log]:
        """Yield the current logs, except for those deleted during the iteration."""
        for log in list(self._logs):
            if self._is_ours(log):
                yield log

    def _is_ours(self, log: Log) -> bool:
        return self._logs.get(log.topic_partition) is log

    # -- retention and expiry -----------------------------------------------------------------------

    def _retain(self, log: Log, now_ms: int) -> Iterator[list[Log]]:
        """Remove old segments, some in each step, until none are left or the log was deleted."""
        count, removed = 0, SEGMENTS_AT_ONCE
        while removed == SEGMENTS_AT_ONCE and self._is_ours(log):
            removed = self._remove_segments(log, now_ms)
            count += removed
            yield []
            if removed < SEGMENTS_AT_ONCE and (unknown := ages_to_learn(log, SEGMENTS_AT_ONCE)):
                self.background(partial(_learn_ages, log, unknown))  # for the next round
        if count:
            logger.info(
                "%s: removed %d old segments; the log start offset is now %d",
                log.topic_partition,
                count,
                log.log_start_offset,
            )

    def _seal_for_copying(self, now_ms: int) -> Iterator[list[Log]]:
        """Roll the active segments of tiered topics by time, which limits the age of records not copied yet."""
        for count, log in enumerate(self._each(), 1):
            if is_due_for_copying(log, now_ms, self._remote_roll_ms):
                self._roll(log, now_ms)
            if count % LOGS_AT_ONCE == 0:
                yield []

    def _roll(self, log: Log, now_ms: int) -> None:
        try:
            log.roll(now_ms)
        except KafkaError as error:
            logger.error("%s: cannot roll the active segment: %s", log.topic_partition, error)

    def _remove_segments(self, log: Log, now_ms: int) -> int:
        try:
            return len(log.delete_old_segments(now_ms, SEGMENTS_AT_ONCE))
        except KafkaError as error:
            logger.error("%s: retention failed: %s", log.topic_partition, error)
            return 0

    def _expire_producers(self, log: Log, now_ms: int) -> Iterator[list[Log]]:
        # Each call checks different producers, so this number of calls covers all that exist now.
        for _ in range(len(log.producers) // PRODUCERS_AT_ONCE + 1):
            checked = log.producers.expire(now_ms, self.producer_expiration_ms, PRODUCERS_AT_ONCE)
            yield []
            if checked < PRODUCERS_AT_ONCE:
                break

    # -- delayed removal of files -------------------------------------------------------------------

    def remove_later(self, path: str, due_ms: int) -> None:
        """Remove an unused folder or file at `due_ms`."""
        self._removals.append((due_ms, path))

    def _collect_garbage(self) -> Iterator[list[Log]]:
        for count, log in enumerate(self._each(), 1):
            if log.garbage:
                self._removals += log.take_garbage()
            if count % LOGS_AT_ONCE == 0:
                yield []

    def _remove(self, now_ms: int) -> None:
        due = [path for when, path in self._removals if when <= now_ms]
        if due:
            self._removals = [entry for entry in self._removals if entry[0] > now_ms]
            # The checkpoint entry is removed before the folder: an entry without a folder would look like a loss.
            has_entries = any(log_dir.unwritten_deletions for log_dir in self._logs.dirs)
            jobs = list(self._checkpoint_jobs()) if has_entries else []
            self.background(lambda: self._remove_now(due, jobs))

    def _remove_now(self, paths: list[str], jobs: list[Callable[[], None]]) -> None:
        fs = self._logs.fs
        for job in jobs:
            _write_unless_disk_full(job)
        for path in paths:
            try:
                if fs.is_folder(path):
                    fs.remove_tree(path)
                else:
                    fs.remove(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                # Wastes only disk space; the next start tries again.
                logger.warning("cannot remove %s: %s", path, error)

    # -- flushes and checkpoints --------------------------------------------------------------------

    def flush_wanted(self, log: Log) -> None:
        self._to_be_flushed[log] = None

    def _to_flush(self, now_ms: int) -> Iterator[list[Log]]:
        due, self._to_be_flushed = self._to_be_flushed, {}
        for count, log in enumerate(self._each(), 1):
            if log.flush_is_due(now_ms):
                due[log] = None
            if count % LOGS_AT_ONCE == 0:
                yield [log for log in due if self._is_ours(log)]
                due = {}
        yield [log for log in due if self._is_ours(log)]

    def _checkpoint_jobs(self) -> Iterator[Callable[[], None]]:
        for log_dir in self._logs.dirs:
            if log_dir.disk.error is None:
                yield self._logs.checkpoint_job_of(log_dir).run


def _learn_ages(log: Log, segments: list[Segment]) -> None:
    """Find the largest timestamps of segments, which may read them completely."""
    try:
        for segment in segments:
            _ = segment.largest_timestamp
    except (OSError, BadBatch) as error:
        logger.warning("%s: cannot determine the age of a segment: %s", log.topic_partition, error)


def _write_unless_disk_full(job: Callable[[], None]) -> None:
    try:
        job()
    except DiskFull as error:
        logger.warning("cannot write a checkpoint, will retry: %s", error)
