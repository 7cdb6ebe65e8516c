"""All logs of a broker: loading, creation, deletion, periodic work, shutdown."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from barnabas.log.dirs.disk_health import BackgroundWriter
from barnabas.log.dirs.handover import LogHandover
from barnabas.log.dirs.housekeeping import Housekeeping
from barnabas.log.dirs.loading import Expected, Loader, LoadReport, close_dir, is_any
from barnabas.log.dirs.log_dir import CheckpointJob, LogDir
from barnabas.log.dirs.logs_by_dir import LogsByDir
from barnabas.log.dirs.moves import Moves
from barnabas.log.dirs.placement import LogDirPlacement, create_log, make_files
from barnabas.log.dirs.properties import kernel_boot_id
from barnabas.log.dirs.state import ACCEPTED_LOSSES, FileLogDirState, LogDirState
from barnabas.log.failures import DISK_FULL, DamagedLog, DiskFull, LogDirError, MissingLog
from barnabas.log.log import Log
from barnabas.log.producer_budget import ProducerBudget
from barnabas.log.recovery.verification import ShutdownKind
from barnabas.log.segments.segment_file import OpenSegments

CLOSING_THREADS = 8  # concurrent fsyncs make use of the disk's queue

logger = safe_logger(__name__)


class LogManager(LogsByDir):
    """Call `lock`, `claim` and `load` first, in this order, and `close` at the end."""

    def __init__(
        self,
        fs: FileSystem,
        dirs: Iterable[str],
        clock: Clock,
        config: BrokerConfig,
        *,
        boot_id: Callable[[], str | None] = kernel_boot_id,
        state_of: Callable[[str], LogDirState] | None = None,
    ) -> None:
        reserve: int = config["barnabas.disk.reserve.bytes"]
        state_of = state_of or partial(FileLogDirState, fs)
        folders = [folder.rstrip(os.sep) or os.sep for folder in dirs]
        super().__init__(fs, [LogDir(fs, folder, reserve, state_of(folder)) for folder in folders])
        self.clock = clock
        self._boot_id = boot_id
        self._config = config
        self.damaged: dict[TopicPartition, DamagedLog] = {}
        self.broker_epoch = -1
        """Stored in the clean shutdown marker, for the controller to compare (KIP-966)."""
        self.closing_threads = CLOSING_THREADS
        self._open_segments = OpenSegments(room_for_segments())
        self.placement = LogDirPlacement(self.dirs, self._dir_of)
        self._incomplete = self._shares_dirs = False
        self.producers = ProducerBudget(
            config["barnabas.producer.ids.max"], lambda: [log.producers for log in self._logs.values()]
        )
        self.on_truncation: Callable[[str], None] = lambda folder: None
        """Called with the folder of a log before it is truncated at its end."""
        self._housekeeping = Housekeeping(self, config)
        self.moves = Moves(
            self, self._dir_of, self._open_segments, self._housekeeping.remove_later, self._storage_error
        )
        """Moves of replicas between the log dirs."""
        self.handover = LogHandover(self, self._logs, self._dir_of, self._open_segments, self._adopt)
        """Closes and opens single partitions."""
        self.use_config(config)

    def use_config(self, config: BrokerConfig) -> None:
        """Apply the dynamic settings."""
        self._housekeeping.producer_expiration_ms = config["producer.id.expiration.ms"]
        self.placement.use_cordoned(config["cordoned.log.dirs"])

    # -- starting -----------------------------------------------------------------------------------

    def lock(self) -> None:
        """Lock the log dirs; raise FolderInUseError if another process uses one."""
        for log_dir in self.dirs:
            try:
                log_dir.state.lock()
            except OSError as error:
                self._give_up(log_dir, error)
        if all(log_dir.disk.error for log_dir in self.dirs):
            raise next(log_dir.disk.error for log_dir in self.dirs if log_dir.disk.error)

    def claim(self, cluster_id: str, node_id: int) -> None:
        """Write the identity of the broker into new log dirs; raise KafkaError if one belongs to another broker."""
        for log_dir in self._online():
            log_dir.directory_id = log_dir.state.claim(cluster_id, node_id).directory_id

    def load(
        self,
        expected: Expected,
        held: Mapping[TopicPartition, ShutdownKind] | None = None,
        *,
        removes_deleted: bool = True,
    ) -> LoadReport:
        """Open all partitions on disk. Unexpected ones are renamed to `-stray` and kept.

        `held`, if other processes serve the dirs too, has the partitions to open, and how each was closed.
        """
        is_ours = is_any if held is None else held.__contains__
        self._shares_dirs = held is not None
        loader = Loader(self.fs, self._open_segments, expected, self.clock.now_ms(), is_ours=is_ours)
        self._resolve_duplicate(is_ours)
        for log_dir in self._online():
            try:
                log_dir.disk.warn_if_nearly_full()
                loader.load(log_dir, self._boot_id(), held or {})
            except OSError as error:
                self._give_up(log_dir, error)
        if not self.offline_dirs:  # missing partitions may be in an offline dir
            loader.find_missing(self.dirs)
        self._dir_of.update(loader.dir_of)
        for log in loader.logs.values():
            self._adopt(log)
        for folder in loader.retired if removes_deleted else ():
            self._housekeeping.remove_later(folder, 0)
        self.damaged |= loader.report.damaged
        self._incomplete = bool(self.offline_dirs)
        self._resume_moves(loader)
        return loader.report

    def _resolve_duplicate(self, is_ours: Callable[[TopicPartition], bool]) -> None:
        held = {}
        for log_dir in self._online() if len(self.dirs) > 1 else ():
            try:
                held[log_dir] = set(self.fs.list(log_dir.folder))
            except OSError as error:
                self._give_up(log_dir, error)
        self.moves.resolve_duplicate(held, is_ours)

    def _resume_moves(self, loader: Loader) -> None:
        for partition, (future, target) in loader.futures.items():
            log = self._logs.get(partition)
            if log is not None:
                self.moves.resume(log, future, target)
                continue
            future.abandon()  # its files are kept if the partition may be on a failed disk
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

    def loss_is_reported(self) -> None:
        """Record that the controller knows about the last unclean shutdown, so the next start does not report it."""
        boot_id = self._boot_id()
        if boot_id is not None:
            for log_dir in self._online():
                log_dir.state.write_boot_id(boot_id)

    # -- creating and deleting ----------------------------------------------------------------------

    def prepare(self, partitions: Iterable[tuple[TopicPartition, Uuid]]) -> Callable[[], None]:
        """Choose dirs for many new partitions; return the slow part of their creation, to run in a thread."""
        partitions = list(partitions)
        dirs = self.placement.prepare(partition for partition, _ in partitions)
        folders = [
            (f"{log_dir.folder}/{partition}", topic_id)
            for log_dir, (partition, topic_id) in zip(dirs, partitions, strict=True)
        ]

        def make() -> None:
            with contextlib.suppress(OSError):  # `create` fails in the same way and reports it
                for folder, topic_id in folders:
                    make_files(self.fs, folder, topic_id)

        return make

    def create(
        self, partition: TopicPartition, topic_id: Uuid, config: LogConfig, *, is_new: bool = False
    ) -> Log:
        """Create a log in the dir with the fewest partitions; return the existing one if it has the same topic id.

        If a log dir is offline, an unknown partition may be in it, so creation is refused unless it `is_new`.
        """
        if partition in self.damaged:
            raise self.damaged[partition]
        known = self._logs.get(partition)
        if known is not None:
            if (failure := self._dir_of[partition].disk.error) is not None:
                raise failure  # a failed disk is used again only after a restart
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
        log_dir.drop_kept(partition)
        self._dir_of[partition] = log_dir
        return self._adopt(log)

    def missing(self, partition: TopicPartition) -> MissingLog | None:
        """Error of a partition whose folder is missing (log/dirs/missing.py), if it is one."""
        damage = self.damaged.get(partition)
        return damage if isinstance(damage, MissingLog) else None

    def give_up_missing(self, partition: TopicPartition) -> None:
        """Drop the checkpoint entries of a missing partition, so that it can be created again, empty."""
        del self.damaged[partition]
        log_dir = self._dir_of.pop(partition)
        log_dir.forget(partition)
        try:
            accepted = log_dir.state.read_partitions(ACCEPTED_LOSSES)
            if partition in accepted:
                log_dir.state.write_partitions(ACCEPTED_LOSSES, accepted - {partition})
        except OSError as error:
            raise self._storage_error(log_dir, error) from error

    def delete(self, partition: TopicPartition) -> None:
        """Delete the partition; its folder is renamed immediately and removed after file.delete.delay.ms."""
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
            # Not synced: if it reappears after a crash, it is a stray.
            self.fs.rename(f"{log_dir.folder}/{partition}", retired)
        except OSError as error:
            raise self._storage_error(log_dir, error) from error
        log_dir.forget(partition)
        delay = log.config.file_delete_delay_ms if log is not None else 0
        self._housekeeping.remove_later(retired, self.clock.now_ms() + delay)

    def take_offline(self, log: Log, cause: OSError) -> str:
        """Take the log dir of a log offline after a failed flush; return the path of the dir."""
        log_dir = self._dir_of[log.topic_partition]
        self._give_up(log_dir, cause)
        return log_dir.folder

    # -- periodic work and background threads -------------------------------------------------------

    def use_background(self, run: Callable[[Callable[[], None]], None]) -> None:
        """Set the executor of slow disk operations whose result is not awaited."""
        self._housekeeping.background = run

    def use_threads(self, new_thread: Callable[[str], BackgroundWriter]) -> None:
        """Set the factory of the threads that write to slow log dirs (log/dirs/slow_writes.py)."""
        slow_ms: int = self._config["barnabas.log.dir.slow.write.ms"]
        for log_dir in self.dirs:
            name = f"barnabas-write-{os.path.basename(log_dir.folder)}"
            log_dir.disk.use_thread_when_slow(slow_ms, partial(new_thread, name), self.clock.monotonic)

    def loop_was_late(self, seconds: float) -> None:
        """Report that the event loop was blocked for this long, possibly by one of the disks."""
        for log_dir in self.dirs:
            log_dir.disk.loop_was_late(seconds)

    def housekeeping_steps(self, now_ms: int) -> Iterator[list[Log]]:
        """Run retention, expiry, removals and checkpoints that are due, in short steps; each yields logs to flush."""
        return self._housekeeping.steps(now_ms)

    def housekeeping(self, now_ms: int) -> list[Log]:
        """Run all steps at once."""
        return [log for logs in self.housekeeping_steps(now_ms) for log in logs]

    def checkpoint(self) -> None:
        """Write the checkpoints of all dirs synchronously."""
        for log_dir in self._online():
            self._checkpoint(log_dir)

    def _checkpoint(self, log_dir: LogDir) -> None:
        self.checkpoint_job_of(log_dir).run()

    def checkpoint_job_of(self, log_dir: LogDir) -> CheckpointJob:
        """Return a job, for any thread, that writes the checkpoints of a dir."""
        return log_dir.checkpoint(self._files_of(log_dir))

    def checkpoint_dir(self, log_dir: LogDir) -> None:
        """Write the checkpoints of a dir synchronously; raise KafkaError if its disk fails."""
        self.checkpoint_step(log_dir)()

    def _files_of(self, log_dir: LogDir) -> list[Log]:
        """All logs in a dir, including future replicas."""
        return self.in_folder(log_dir.folder) + self.moves.futures_in(log_dir)

    def checkpoint_step(self, log_dir: LogDir) -> Callable[[], None]:
        """Like `checkpoint_dir`, for any thread: the offsets are those of this call, not of the run."""
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
        """Return a job, for any thread, that writes the checkpoints of the log's dir."""
        return self.checkpoint_job_of(self._dir_of[log.topic_partition])

    # -- stopping -----------------------------------------------------------------------------------

    def close(self, clean: bool = True) -> None:
        """Close all logs; if clean, flush them and write the clean shutdown marker of each dir."""
        if clean:
            # The old folder of a moved partition is not closed.
            self._resolve_duplicate(self._dir_of.__contains__ if self._shares_dirs else is_any)
            for log_dir in self._online():
                try:
                    close_dir(log_dir, self._files_of(log_dir), self.closing_threads, self.broker_epoch)
                except (OSError, KafkaError) as error:
                    logger.error("no clean shutdown marker in %s: %s", log_dir.folder, error)
        for log_dir in self.dirs:
            for log in self._files_of(log_dir):
                log.abandon()
            log_dir.disk.close()
            log_dir.state.unlock()

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
