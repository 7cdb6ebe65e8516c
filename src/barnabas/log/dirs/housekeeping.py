"""What a broker does to its logs by the clock.

A round goes over all logs, of which there may be tens of thousands, so it is a generator of short steps: its driver
lets requests in between. Logs may come, go, roll and be cut between two steps; each step looks at a log as it is then.
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


def run_here(work: Callable[[], None]) -> None:
    work()


class Every:
    """Something that is due again and again, for the first time after `delay_ms` if that is sooner."""

    def __init__(self, interval_ms: int, delay_ms: int) -> None:
        self._interval_ms = interval_ms
        self._delay_ms = min(delay_ms, interval_ms)
        self._next_ms: int | None = None

    def is_due(self, now_ms: int) -> bool:
        """At most once per interval."""
        if self._next_ms is None:
            self._next_ms = now_ms + self._delay_ms
        set_back = self._next_ms - now_ms > self._interval_ms  # somebody has corrected the clock
        if now_ms < self._next_ms and not set_back:
            return False
        self._next_ms = now_ms + self._interval_ms
        return True


SEGMENTS_AT_ONCE = 16  # removed in one step: some four renames each, about a millisecond
PRODUCERS_AT_ONCE = 1000  # looked at in one step, about a millisecond
MAX_ROLL_CHECK_MS = 60_000
LOGS_AT_ONCE = 64  # where little is done to each


class Housekeeping:
    """`steps` is taken about once a second. Slow calls to the disk go through `background`."""

    def __init__(self, logs: LogManager, config: BrokerConfig) -> None:
        self._logs = logs
        self.background: Callable[[Callable[[], None]], None] = run_here
        self.producer_expiration_ms: int = config["producer.id.expiration.ms"]
        delay_ms: int = config["log.initial.task.delay.ms"]
        self._retention = Every(config["log.retention.check.interval.ms"], delay_ms)
        self._expiry = Every(config["producer.id.expiration.check.interval.ms"], delay_ms)
        # All three files are written together; what has not changed is not written.
        self._checkpoint = Every(
            min(
                config["log.flush.offset.checkpoint.interval.ms"],
                config["log.flush.start.offset.checkpoint.interval.ms"],
                config["replica.high.watermark.checkpoint.interval.ms"],
            ),
            delay_ms,
        )
        self._remote_roll_ms: int = config["barnabas.remote.roll.ms"]
        self._remote_roll = Every(min(self._remote_roll_ms, MAX_ROLL_CHECK_MS), delay_ms)
        self._last_ms = 0
        self._removals: list[tuple[int, str]] = []
        self._wanting_flush: dict[Log, None] = {}

    def steps(self, now_ms: int) -> Iterator[list[Log]]:
        """Everything that is due; each step gives the logs that want a flush now, mostly none."""
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
                self.background(partial(_write_if_there_is_room, job))
                yield []
        yield from self._to_flush(now_ms)

    def _notice_clock(self, now_ms: int) -> None:
        """A clock that was set back by hours must not put off by hours what was due in a minute."""
        for log_dir in self._logs.dirs:
            log_dir.disk.notice(now_ms)
        set_back, self._last_ms = self._last_ms - now_ms, now_ms
        if set_back > 0:
            self._removals = [(when - set_back, path) for when, path in self._removals]

    def _each(self) -> Iterator[Log]:
        """All logs of this moment, without those that are gone when it is their turn."""
        for log in list(self._logs):
            if self._is_ours(log):
                yield log

    def _is_ours(self, log: Log) -> bool:
        return self._logs.get(log.topic_partition) is log

    # -- what is no longer wanted -------------------------------------------------------------------

    def _retain(self, log: Log, now_ms: int) -> Iterator[list[Log]]:
        """Remove old segments, some in each step, until there are none or somebody has removed the log."""
        count, removed = 0, SEGMENTS_AT_ONCE
        while removed == SEGMENTS_AT_ONCE and self._is_ours(log):
            removed = self._remove_segments(log, now_ms)
            count += removed
            yield []
            if removed < SEGMENTS_AT_ONCE and (unknown := ages_to_learn(log, SEGMENTS_AT_ONCE)):
                self.background(partial(_learn_ages, log, unknown))  # the next round knows them
        if count:
            logger.info(
                "%s: removed %d old segments, it now starts at %d",
                log.topic_partition,
                count,
                log.log_start_offset,
            )

    def _seal_for_copying(self, now_ms: int) -> Iterator[list[Log]]:
        """What is remote must not be too old: active segments of tiered topics are sealed by the clock."""
        for count, log in enumerate(self._each(), 1):
            if is_due_for_copying(log, now_ms, self._remote_roll_ms):
                self._roll(log, now_ms)
            if count % LOGS_AT_ONCE == 0:
                yield []

    def _roll(self, log: Log, now_ms: int) -> None:
        try:
            log.roll(now_ms)
        except KafkaError as error:
            logger.error("%s: no new segment: %s", log.topic_partition, error)

    def _remove_segments(self, log: Log, now_ms: int) -> int:
        try:
            return len(log.delete_old_segments(now_ms, SEGMENTS_AT_ONCE))
        except KafkaError as error:
            logger.error("%s: retention failed: %s", log.topic_partition, error)
            return 0

    def _expire_producers(self, log: Log, now_ms: int) -> Iterator[list[Log]]:
        # Each call looks at others, so this many have seen all of those who are there now.
        for _ in range(len(log.producers) // PRODUCERS_AT_ONCE + 1):
            seen = log.producers.expire(now_ms, self.producer_expiration_ms, PRODUCERS_AT_ONCE)
            yield []
            if seen < PRODUCERS_AT_ONCE:
                break

    # -- files on their way out ---------------------------------------------------------------------

    def remove_later(self, path: str, due_ms: int) -> None:
        """A folder or a file that nobody uses any more."""
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
            # A folder goes after what the checkpoint notes of it: a note without a folder would look like a loss.
            is_noted = any(log_dir.unwritten_deletions for log_dir in self._logs.dirs)
            jobs = list(self._checkpoint_jobs()) if is_noted else []
            self.background(lambda: self._remove_now(due, jobs))

    def _remove_now(self, paths: list[str], jobs: list[Callable[[], None]]) -> None:
        fs = self._logs.fs
        for job in jobs:
            _write_if_there_is_room(job)
        for path in paths:
            try:
                if fs.is_folder(path):
                    fs.remove_tree(path)
                else:
                    fs.remove(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                # Only space is lost; the next start tries again.
                logger.warning("%s could not be removed: %s", path, error)

    # -- flushes and checkpoints --------------------------------------------------------------------

    def flush_wanted(self, log: Log) -> None:
        self._wanting_flush[log] = None

    def _to_flush(self, now_ms: int) -> Iterator[list[Log]]:
        wanted, self._wanting_flush = self._wanting_flush, {}
        for count, log in enumerate(self._each(), 1):
            if log.flush_is_due(now_ms):
                wanted[log] = None
            if count % LOGS_AT_ONCE == 0:
                yield [log for log in wanted if self._is_ours(log)]
                wanted = {}
        yield [log for log in wanted if self._is_ours(log)]

    def _checkpoint_jobs(self) -> Iterator[Callable[[], None]]:
        for log_dir in self._logs.dirs:
            if log_dir.disk.error is None:
                yield self._logs.checkpoint_job_of(log_dir).run


def _learn_ages(log: Log, segments: list[Segment]) -> None:
    """Walk through segments, which takes as long as reading them."""
    try:
        for segment in segments:
            _ = segment.largest_timestamp
    except (OSError, BadBatch) as error:
        logger.warning("%s: the age of a segment is not known: %s", log.topic_partition, error)


def _write_if_there_is_room(job: Callable[[], None]) -> None:
    try:
        job()
    except DiskFull as error:
        logger.warning("the checkpoint is not written this time: %s", error)
