"""All logs of a broker: found on disk at the start, created, kept in order, closed."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from barnabas.common.clock import Clock
from barnabas.common.descriptors import room_for_segments
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import FileSystem
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition, Uuid
from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import LogConfig
from barnabas.log import names
from barnabas.log.dirs.housekeeping import Housekeeping
from barnabas.log.dirs.loading import Expected, Loader, LoadReport, close_dir
from barnabas.log.dirs.log_dir import ACCEPTED_LOSSES, CheckpointJob, LogDir
from barnabas.log.dirs.logs_by_dir import LogsByDir
from barnabas.log.dirs.moves import Moves
from barnabas.log.dirs.placement import Placement, create_log, make_files
from barnabas.log.dirs.properties import (
    claim,
    kernel_boot_id,
    write_boot_id,
)
from barnabas.log.dirs.slow_writes import Background
from barnabas.log.failures import DISK_FULL, DamagedLog, DiskFull, LogDirError, MissingLog
from barnabas.log.log import Log
from barnabas.log.producer_budget import ProducerBudget
from barnabas.log.segments.segment_file import OpenSegments

CLOSING_THREADS = 8  # fsyncs that wait together share the disk's own queue

logger = safe_logger(__name__)


class LogManager(LogsByDir):
    """Use: `lock`, `claim`, `load`, then the rest; `close` at the end."""

    def __init__(
        self,
        fs: FileSystem,
        dirs: Iterable[str],
        clock: Clock,
        config: BrokerConfig,
        *,
        boot_id: Callable[[], str | None] = kernel_boot_id,
    ) -> None:
        reserve: int = config["barnabas.disk.reserve.bytes"]
        super().__init__(fs, [LogDir(fs, folder.rstrip(os.sep) or os.sep, reserve) for folder in dirs])
        self.clock = clock
        self._boot_id = boot_id
        self._config = config
        self.damaged: dict[TopicPartition, DamagedLog] = {}
        self.broker_epoch = -1
        """Written into the clean-shutdown marker, for the controller to compare (KIP-966)."""
        self.closing_threads = CLOSING_THREADS
        self._open_segments = OpenSegments(room_for_segments())
        self.placement = Placement(self.dirs, self._dir_of)
        self._incomplete = False
        self.producers = ProducerBudget(
            config["barnabas.producer.ids.max"], lambda: [log.producers for log in self._logs.values()]
        )
        self.on_truncation: Callable[[str], None] = lambda folder: None
        """Called with the folder of a log before it is cut at its end."""
        self._housekeeping = Housekeeping(self, config)
        self.moves = Moves(
            self, self._dir_of, self._open_segments, self._housekeeping.remove_later, self._storage_error
        )
        """Replicas on their way from one of the dirs to another."""
        self.use_config(config)

    def use_config(self, config: BrokerConfig) -> None:
        """Take over settings that may change while running."""
        self._housekeeping.producer_expiration_ms = config["producer.id.expiration.ms"]
        self.placement.use_cordoned(config["cordoned.log.dirs"])

    # -- starting -----------------------------------------------------------------------------------

    def lock(self) -> None:
        """Keep other processes out of the folders; FolderInUseError when one is in."""
        for log_dir in self.dirs:
            try:
                log_dir.lock()
            except OSError as error:
                self._give_up(log_dir, error)
        if all(log_dir.disk.error for log_dir in self.dirs):
            raise next(log_dir.disk.error for log_dir in self.dirs if log_dir.disk.error)

    def claim(self, cluster_id: str, node_id: int) -> None:
        """Write the identity of the broker into new folders; refuse those of somebody else."""
        for log_dir in self._online():
            log_dir.directory_id = claim(self.fs, log_dir.folder, cluster_id, node_id).directory_id

    def load(self, expected: Expected) -> LoadReport:
        """Open every partition that is on disk. What is not expected is renamed `-stray` and kept."""
        loader = Loader(self.fs, self._open_segments, expected, self.clock.now_ms())
        self._settle_two_places()
        for log_dir in self._online():
            try:
                loader.load(log_dir, self._boot_id())
            except OSError as error:
                self._give_up(log_dir, error)
        if not self.offline_dirs:  # else what is missing may be in there
            loader.find_missing(self.dirs)
        self._dir_of.update(loader.dir_of)
        for log in loader.logs.values():
            self._adopt(log)
        for folder in loader.retired:
            self._housekeeping.remove_later(folder, 0)
        self.damaged = loader.report.damaged
        self._incomplete = bool(self.offline_dirs)
        self._resume_moves(loader)
        return loader.report

    def _settle_two_places(self) -> None:
        held = {}
        for log_dir in self._online() if len(self.dirs) > 1 else ():
            try:
                held[log_dir] = set(self.fs.list(log_dir.folder))
            except OSError as error:
                self._give_up(log_dir, error)
        self.moves.settle_two_places(held)

    def _resume_moves(self, loader: Loader) -> None:
        for partition, (future, target) in loader.futures.items():
            log = self._logs.get(partition)
            if log is not None:
                self.moves.resume(log, future, target)
                continue
            future.abandon()  # and leave it where it is, if the partition itself may be on a disk that failed
            if not self._incomplete and partition not in self.damaged:
                loader.set_aside(target, os.path.basename(future.folder), partition)

    def _adopt(self, log: Log) -> Log:
        self._logs[log.topic_partition] = log
        log.connect(
            on_flush_wanted=partial(self._housekeeping.flush_wanted, log),
            before_truncation=partial(self._before_truncation, log),
        )
        log.count_flush_ms_from(self.clock.now_ms())
        self.producers.watch(log.producers)
        return log

    def loss_is_told(self) -> None:
        """The controller has heard how this broker stopped: the next start only tells what happens from now on."""
        boot_id = self._boot_id()
        if boot_id is not None:
            for log_dir in self._online():
                write_boot_id(self.fs, log_dir.folder, boot_id)

    # -- creating and deleting ----------------------------------------------------------------------

    def prepare(self, partitions: Iterable[tuple[TopicPartition, Uuid]]) -> Callable[[], None]:
        """Choose dirs for many new partitions; the slow part of their creation, to be run in a thread."""
        partitions = list(partitions)
        dirs = self.placement.prepare(partition for partition, _ in partitions)
        folders = [
            (f"{log_dir.folder}/{partition}", topic_id)
            for log_dir, (partition, topic_id) in zip(dirs, partitions, strict=True)
        ]

        def make() -> None:
            with contextlib.suppress(OSError):  # `create` meets it again, and says so
                for folder, topic_id in folders:
                    make_files(self.fs, folder, topic_id)

        return make

    def create(
        self, partition: TopicPartition, topic_id: Uuid, config: LogConfig, *, is_new: bool = False
    ) -> Log:
        """A new log in the dir with the fewest partitions; the one that exists, if it is of the same topic.

        While a log dir is offline a partition that was not found may be in there, unless it `is_new`.
        """
        if partition in self.damaged:
            raise self.damaged[partition]
        known = self._logs.get(partition)
        if known is not None:
            if (failure := self._dir_of[partition].disk.error) is not None:
                raise failure  # its disk is gone; only a restart finds out whether it is back
            known.confirm_topic_id(topic_id)
            return known
        if self._incomplete and not is_new:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{partition} may be in a log dir that is offline: {', '.join(self.offline_dirs)}",
            )
        log_dir = self.placement.choose(partition)
        folder = f"{log_dir.folder}/{partition}"
        if partition in log_dir.unwritten_deletions:
            self._checkpoint(log_dir)
        try:
            log = create_log(
                self.fs,
                folder,
                partition,
                topic_id,
                config,
                disk=log_dir.disk,
                open_segments=self._open_segments,
                now_ms=self.clock.now_ms(),
                roll_jitter=random.random(),
            )
        except OSError as error:
            raise self._storage_error(log_dir, error) from error
        self._dir_of[partition] = log_dir
        return self._adopt(log)

    def missing(self, partition: TopicPartition) -> MissingLog | None:
        """A partition whose folder is gone (log/dirs/missing.py)."""
        damage = self.damaged.get(partition)
        return damage if isinstance(damage, MissingLog) else None

    def give_up_missing(self, partition: TopicPartition) -> None:
        """What was noted of a missing partition counts no more: it may be created again, empty."""
        del self.damaged[partition]
        log_dir = self._dir_of.pop(partition)
        log_dir.forget(partition)
        try:
            accepted = log_dir.read_partitions(ACCEPTED_LOSSES)
            if partition in accepted:
                log_dir.write_partitions(ACCEPTED_LOSSES, accepted - {partition})
        except OSError as error:
            raise self._storage_error(log_dir, error) from error

    def delete(self, partition: TopicPartition) -> None:
        """Take the partition away; its folder is renamed at once and removed after file.delete.delay.ms."""
        if self.missing(partition) is not None:
            self.give_up_missing(partition)
            return
        self.moves.drop(partition)
        log = self._logs.pop(partition, None)
        log_dir = self._dir_of.pop(partition, None)
        damaged = self.damaged.pop(partition, None)
        if log_dir is None or (log is None and damaged is None) or log_dir.disk.error:
            return
        if log is not None:
            log.abandon()
        retired = f"{log_dir.folder}/{names.retired_folder_name(partition, names.DELETE_FOLDER)}"
        try:
            # Not synced: if a crash brings it back, it is a stray.
            self.fs.rename(f"{log_dir.folder}/{partition}", retired)
        except OSError as error:
            raise self._storage_error(log_dir, error) from error
        log_dir.forget(partition)
        delay = log.config.file_delete_delay_ms if log is not None else 0
        self._housekeeping.remove_later(retired, self.clock.now_ms() + delay)

    def take_offline(self, log: Log, cause: OSError) -> str:
        """A flush failed: every log of that dir is refused from now on. The dir's folder."""
        log_dir = self._dir_of[log.topic_partition]
        self._give_up(log_dir, cause)
        return log_dir.folder

    # -- by the clock -------------------------------------------------------------------------------

    def use_background(self, run: Callable[[Callable[[], None]], None]) -> None:
        """Where slow calls to the disk go that nobody waits for."""
        self._housekeeping.background = run

    def use_threads(self, new_thread: Callable[[str], Background]) -> None:
        """Where writes to a log dir go that has shown itself slow (log/dirs/slow_writes.py)."""
        slow_ms: int = self._config["barnabas.log.dir.slow.write.ms"]
        for log_dir in self.dirs:
            name = f"barnabas-write-{os.path.basename(log_dir.folder)}"
            log_dir.disk.use_thread_when_slow(slow_ms, partial(new_thread, name), self.clock.monotonic)

    def loop_was_late(self, seconds: float) -> None:
        """The loop was held up for so long; perhaps by one of the disks."""
        for log_dir in self.dirs:
            log_dir.disk.loop_was_late(seconds)

    def housekeeping_steps(self, now_ms: int) -> Iterator[list[Log]]:
        """Retention, expiry, removals, checkpoints, each when it is due, in short steps that give the logs which want a
        flush. The caller lets others run in between."""
        return self._housekeeping.steps(now_ms)

    def housekeeping(self, now_ms: int) -> list[Log]:
        """All steps at once."""
        return [log for wanted in self.housekeeping_steps(now_ms) for log in wanted]

    def checkpoint(self) -> None:
        """Note recovery points, log starts and high watermarks, now and here."""
        for log_dir in self._online():
            self._checkpoint(log_dir)

    def _checkpoint(self, log_dir: LogDir) -> None:
        self.checkpoint_job_of(log_dir).run()

    def checkpoint_job_of(self, log_dir: LogDir) -> CheckpointJob:
        """What writes the checkpoints of a dir, in any thread."""
        return log_dir.checkpoint(self._files_of(log_dir))

    def checkpoint_dir(self, log_dir: LogDir) -> None:
        """Note what is known of a dir now and here; KafkaError if its disk fails."""
        self.checkpoint_step(log_dir)()

    def _files_of(self, log_dir: LogDir) -> list[Log]:
        """Everything that a dir holds: logs in use, and copies that are being made."""
        return self.in_folder(log_dir.folder) + self.moves.futures_in(log_dir)

    def checkpoint_step(self, log_dir: LogDir) -> Callable[[], None]:
        """As `checkpoint_dir`, of what is known now, in any thread."""
        job = self.checkpoint_job_of(log_dir)

        def run() -> None:
            job.run()
            if log_dir.disk.error is not None:
                raise log_dir.disk.error

        return run

    def _before_truncation(self, log: Log, log_end: int) -> Callable[[], None] | None:
        self.on_truncation(log.folder)
        if (move := self.moves.get(log.topic_partition)) is not None:
            move.is_cut(log_end)
        log_dir = self._dir_of[log.topic_partition]
        cleaned = log_dir.cleaned.get(log.topic_partition, 0)
        if cleaned > log.recovery_point:
            log_dir.cleaned[log.topic_partition] = log.recovery_point
        if log_dir.notes_nothing_beyond(log_end, log.topic_partition):
            return None
        return self.checkpoint_step(log_dir)

    def checkpoint_job(self, log: Log) -> CheckpointJob:
        """What writes the checkpoints of the log's dir, in any thread."""
        return self.checkpoint_job_of(self._dir_of[log.topic_partition])

    # -- stopping -----------------------------------------------------------------------------------

    def close(self, clean: bool = True) -> None:
        """Finish every log; a dir in which that succeeds is marked clean."""
        if clean:
            for log_dir in self._online():
                try:
                    close_dir(log_dir, self._files_of(log_dir), self.closing_threads, self.broker_epoch)
                except (OSError, KafkaError) as error:
                    logger.error("%s is not marked clean: %s", log_dir.folder, error)
        for log_dir in self.dirs:
            for log in self._files_of(log_dir):
                log.abandon()
            log_dir.disk.close()
            log_dir.unlock()

    # -- errors -------------------------------------------------------------------------------------

    def _storage_error(self, log_dir: LogDir, cause: OSError) -> KafkaError:
        if cause.errno in DISK_FULL:
            return DiskFull(log_dir.folder, cause)
        return self._give_up(log_dir, cause)

    def _give_up(self, log_dir: LogDir, cause: OSError) -> LogDirError:
        error = log_dir.fail(cause)
        logger.error("%s", error)
        for log in self.in_folder(log_dir.folder):
            log.abandon()
        self.moves.lost(log_dir)
        return error
