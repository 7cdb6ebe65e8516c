"""Load the logs of all log dirs at startup, and close them at shutdown."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import FileSystem
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import ZERO_UUID, TopicPartition, Uuid
from barnabas.config.topic import LogConfig
from barnabas.log import names
from barnabas.log.checkpoints import (
    CLEANED_OFFSETS,
    CheckpointError,
    decode_partition_metadata,
    read_if_exists,
)
from barnabas.log.dirs.log_dir import Checkpoints, LogDir
from barnabas.log.dirs.missing import noted_without_folder
from barnabas.log.dirs.state import ACCEPTED_LOSSES, DAMAGED_PARTITIONS
from barnabas.log.failures import DamagedLog, MissingLog
from barnabas.log.flushing import FlushJob
from barnabas.log.local_log import LogState
from barnabas.log.log import Log
from barnabas.log.recovery.recovery import Recovery
from barnabas.log.recovery.verification import RecoveryReport, ShutdownKind
from barnabas.log.segments.segment_file import OpenSegments

# -- Clean shutdown of a log dir -----------------------------------------------------------------------


def close_dir(log_dir: LogDir, logs: list[Log], threads: int, broker_epoch: int) -> None:
    """Flush all logs, then write the clean shutdown marker. There must be no more appends."""
    jobs = [log.prepare_close() for log in logs]
    _run_all(jobs, threads)
    for log, job in zip(logs, jobs, strict=True):
        log.complete_flush(job)
    log_dir.checkpoint(logs).run()
    if log_dir.disk.error is None:
        log_dir.state.closed(broker_epoch, [log.topic_partition for log in logs])


def _run_all(jobs: Iterable[FlushJob], threads: int) -> None:
    """Run flush jobs in threads, without one for empty jobs or a single job."""
    busy = [job for job in jobs if job.files or job.paths or job.folders]
    if len(busy) == 1 or threads == 1:
        for job in busy:
            job.run()
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(FlushJob.run, busy))


KRAFT_METADATA = "__cluster_metadata-0"
"""The metadata log of Apache Kafka: never served, never changed."""

Expected = Callable[[TopicPartition, Uuid | None], LogConfig | None]
"""Returns the config of a partition by its name and the topic id in its folder; None for a stray."""

logger = safe_logger(__name__)


def is_any(partition: TopicPartition) -> bool:
    return True


@dataclass(slots=True)
class LoadReport:
    """Result of loading the log dirs."""

    stops: dict[str, ShutdownKind] = field(default_factory=dict)
    loaded: int = 0
    recovered: dict[TopicPartition, RecoveryReport] = field(default_factory=dict)
    damaged: dict[TopicPartition, DamagedLog] = field(default_factory=dict)
    strays: list[str] = field(default_factory=list)

    @property
    def cut_bytes(self) -> int:
        return sum(report.cut_bytes for report in self.recovered.values())


class Loader:
    """Loads the log dirs of a broker one by one. Single use. Partitions that are not `ours` are left alone: other
    processes serve them from the same log dirs."""

    def __init__(
        self,
        fs: FileSystem,
        open_segments: OpenSegments,
        expected: Expected,
        now_ms: int,
        *,
        is_ours: Callable[[TopicPartition], bool] = is_any,
    ) -> None:
        self._fs = fs
        self._is_ours = is_ours
        self._open_segments = open_segments
        self._expected = expected
        self._now_ms = now_ms
        self.report = LoadReport()
        self.logs: dict[TopicPartition, Log] = {}
        self.dir_of: dict[TopicPartition, LogDir] = {}
        self.retired: list[str] = []
        """`-delete` folders of partitions that were deleted before the shutdown."""
        self.futures: dict[TopicPartition, tuple[Log, LogDir]] = {}
        """Future replicas of moves between log dirs."""
        self.cleaned: dict[TopicPartition, int] = {}
        """Offsets up to which the logs of `load_some` were compacted."""
        self._noted: dict[tuple[LogDir, TopicPartition], int] = {}
        """End offsets in the checkpoints of a dir, of partitions without a folder there."""

    def load(
        self, log_dir: LogDir, boot_id: str | None, stops: Mapping[TopicPartition, ShutdownKind]
    ) -> None:
        """Load a log dir; `stops` has partitions that were closed otherwise than the dir. Raise OSError if the disk
        fails, KafkaError if a partition is in two dirs."""
        stop = self.report.stops[log_dir.folder] = log_dir.state.last_shutdown(boot_id)
        checkpoints = log_dir.read_checkpoints()
        known_damage = log_dir.state.read_partitions(DAMAGED_PARTITIONS)
        self._keep_notes(
            log_dir, checkpoints, lambda each: stop is ShutdownKind.CRASHED and each not in known_damage
        )
        for partition in self._partitions(log_dir):
            assumed = ShutdownKind.CRASHED if partition in known_damage else stops.get(partition, stop)
            self._load_partition(log_dir, partition, assumed, checkpoints)
        for name in self._fs.list(log_dir.folder):
            moving = names.partition_of_future(name)
            if moving is not None and self._is_ours(moving):
                self._load_future(log_dir, name, moving, checkpoints)
        # After a crash the boot id is written when the controller knows (`loss_is_reported`): until then, every start
        # detects the crash again.
        self._settle(log_dir, None if stop is ShutdownKind.CRASHED else boot_id)
        if stop is not ShutdownKind.CLEAN and self.report.recovered:
            logger.info(
                "unclean shutdown of %s (%s): checked %d bytes of %d partitions, truncated %d bytes",
                log_dir.folder,
                stop.value,
                sum(recovery.scanned_bytes for recovery in self.report.recovered.values()),
                len(self.report.recovered),
                self.report.cut_bytes,
            )

    def load_some(
        self, log_dirs: Collection[LogDir], stops: Mapping[TopicPartition, ShutdownKind], *, is_complete: bool
    ) -> None:
        """Load single partitions of a running broker; `stops` says how each was closed. `is_complete`: no log dir is
        offline, so a partition without a folder is missing if a checkpoint has records of it, and new otherwise."""
        for log_dir in log_dirs:
            checkpoints, cleaned = log_dir.read_checkpoints(), log_dir.state.read_offsets(CLEANED_OFFSETS)
            known_damage = log_dir.state.read_partitions(DAMAGED_PARTITIONS)
            crashed = {each for each, stop in stops.items() if stop is ShutdownKind.CRASHED}
            self._keep_notes(log_dir, checkpoints, (crashed - known_damage).__contains__)
            for partition, stop in stops.items():
                if self._fs.is_folder(f"{log_dir.folder}/{partition}"):
                    assumed = ShutdownKind.CRASHED if partition in known_damage else stop
                    self._load_partition(log_dir, partition, assumed, checkpoints)
                    if partition in cleaned:
                        self.cleaned[partition] = cleaned[partition]
            self._write_damaged(log_dir)
        if is_complete:
            self.find_missing(log_dirs)

    def _keep_notes(
        self, log_dir: LogDir, checkpoints: Checkpoints, is_doubted: Callable[[TopicPartition], bool]
    ) -> None:
        """Keep the checkpoint entries of partitions without a folder until all dirs are loaded."""
        names_in_dir = set(self._fs.list(log_dir.folder))
        own_partitions = Checkpoints(
            *({p: o for p, o in kept.items() if self._is_ours(p)} for kept in checkpoints)
        )
        noted = noted_without_folder(own_partitions, names_in_dir, is_doubted)
        for partition, (_, end) in noted.items():
            if self._expected(partition, None) is not None:
                log_dir.keep(partition, checkpoints)
                self._noted[log_dir, partition] = end

    def find_missing(self, dirs: Iterable[LogDir]) -> None:
        """Report partitions without a folder as missing. All dirs were loaded, and none is offline."""
        for log_dir in dirs:
            noted = {partition: end for (where, partition), end in self._noted.items() if where is log_dir}
            accepted = log_dir.state.read_partitions(ACCEPTED_LOSSES)
            for partition, end in noted.items():
                other = self.dir_of.setdefault(partition, log_dir)
                if other is not log_dir:
                    if not self._is_behind(partition, end):
                        log_dir.forget(partition)  # it has moved
                        continue
                    self._set_aside_old(partition, other)
                    self.dir_of[partition] = log_dir
                self.report.damaged[partition] = MissingLog(
                    f"{log_dir.folder}/{partition}", partition.topic, end, is_accepted=partition in accepted
                )
            if noted:
                self._write_damaged(log_dir)
            # An acceptance is valid for one loss; it ends when the folder is restored or the topic deleted.
            if over := {each for each in accepted - noted.keys() if self._is_ours(each)}:
                log_dir.state.write_partitions(ACCEPTED_LOSSES, accepted - over)

    def _is_behind(self, partition: TopicPartition, end: int) -> bool:
        """True if the log in another dir lacks records: a move had replaced it by the one that is missing.

        During a move, the checkpoint entry is that of the future replica, which may be flushed further.
        """
        log = self.logs.get(partition)
        return log is not None and partition not in self.futures and log.log_end_offset < end

    def _set_aside_old(self, partition: TopicPartition, log_dir: LogDir) -> None:
        self.logs.pop(partition).abandon()
        self.report.strays.append(self.set_aside(log_dir, str(partition), partition))
        log_dir.forget(partition)

    def _partitions(self, log_dir: LogDir) -> Iterable[TopicPartition]:
        for name in self._fs.list(log_dir.folder):
            folder = f"{log_dir.folder}/{name}"
            if name.endswith(names.DELETE_FOLDER):
                self.retired.append(folder)
                continue
            partition = names.partition_of_folder(name)
            if partition is None or name == KRAFT_METADATA or not self._is_ours(partition):
                continue
            if self._fs.is_folder(folder):
                yield partition

    def _settle(self, log_dir: LogDir, boot_id: str | None) -> None:
        """Write the loaded state, then remove the clean shutdown marker: a crash in between is safe."""
        here = [partition for partition, where in self.dir_of.items() if where is log_dir]
        log_dir.read_cleaned(here)
        self._write_damaged(log_dir)
        logs = [self.logs[partition] for partition in here if partition in self.logs]
        log_dir.write_checkpoint(log_dir.checkpoint(logs))
        log_dir.state.opened(boot_id)

    def _write_damaged(self, log_dir: LogDir) -> None:
        before = log_dir.state.read_partitions(DAMAGED_PARTITIONS)
        after = {each for each in before if not self._is_ours(each)}
        after |= {each for each in self.report.damaged if self.dir_of[each] is log_dir}
        if after != before:
            log_dir.state.write_partitions(DAMAGED_PARTITIONS, after)

    def _load_partition(
        self, log_dir: LogDir, partition: TopicPartition, stop: ShutdownKind, checkpoints: Checkpoints
    ) -> None:
        folder = f"{log_dir.folder}/{partition}"
        topic_id = self._topic_id(folder)
        config = self._expected(partition, topic_id)
        if config is None:
            self.report.strays.append(self.set_aside(log_dir, str(partition), partition))
            return
        self._note_dir(partition, log_dir)
        recovery = self._recovery(folder, partition, config, stop, checkpoints)
        try:
            parts = recovery.run()
        except DamagedLog as damage:
            logger.error("%s", damage)
            self.report.damaged[partition] = damage
            log_dir.keep(partition, checkpoints)
            return
        log = self.logs[partition] = self._log(folder, partition, topic_id, config, parts, log_dir)
        known = checkpoints.high_watermarks.get(partition, 0)
        # A crash may restore batches that were truncated before it: only flushed offsets count as committed, and a
        # follower gets the high watermark from its leader.
        log.advance_high_watermark(
            min(known, parts.recovery_point) if stop is ShutdownKind.CRASHED else known
        )
        self._report_recovery(partition, recovery.report)

    def _recovery(
        self,
        folder: str,
        partition: TopicPartition,
        config: LogConfig,
        stop: ShutdownKind,
        checkpoints: Checkpoints,
    ) -> Recovery:
        return Recovery(
            self._fs,
            folder,
            config,
            self._open_segments,
            stop=stop,
            recovery_point=checkpoints.recovery_points.get(partition, 0),
            log_start=checkpoints.log_starts.get(partition, 0),
            now_ms=self._now_ms,
        )

    def _log(
        self,
        folder: str,
        partition: TopicPartition,
        topic_id: Uuid | None,
        config: LogConfig,
        parts: LogState,
        log_dir: LogDir,
    ) -> Log:
        return Log(
            self._fs,
            folder,
            partition,
            topic_id or ZERO_UUID,
            config,
            parts,
            disk=log_dir.disk,
            open_segments=self._open_segments,
            roll_jitter=random.random(),
        )

    def _load_future(
        self, log_dir: LogDir, name: str, partition: TopicPartition, checkpoints: Checkpoints
    ) -> None:
        """Load the future replica of an unfinished move; rename it to `-stray` if it is unusable."""
        folder = f"{log_dir.folder}/{name}"
        topic_id = self._topic_id(folder)
        config = self._expected(partition, topic_id)
        if config is None or topic_id is None or partition in self.futures:
            self.report.strays.append(self.set_aside(log_dir, name, partition))
            return
        stop = self.report.stops[log_dir.folder]
        try:
            parts = self._recovery(folder, partition, config, stop, checkpoints).run()
        except DamagedLog as damage:
            logger.warning("the move of %s was cancelled, start it again: %s", partition, damage)
            self.report.strays.append(self.set_aside(log_dir, name, partition))
            return
        future = self._log(folder, partition, topic_id, config, parts, log_dir)
        self.futures[partition] = future, log_dir

    def _note_dir(self, partition: TopicPartition, log_dir: LogDir) -> None:
        other = self.dir_of.setdefault(partition, log_dir)
        if other is not log_dir:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{partition} is in {other.folder} and in {log_dir.folder}: move the wrong one elsewhere",
            )

    def _topic_id(self, folder: str) -> Uuid | None:
        data = read_if_exists(self._fs, f"{folder}/{names.PARTITION_METADATA}")
        try:
            return None if data is None else decode_partition_metadata(data)
        except CheckpointError as error:
            logger.warning("%s/%s cannot be read: %s", folder, names.PARTITION_METADATA, error)
            return None

    def set_aside(self, log_dir: LogDir, name: str, partition: TopicPartition) -> str:
        stray = f"{log_dir.folder}/{names.retired_folder_name(partition, names.STRAY_FOLDER)}"
        self._fs.rename(f"{log_dir.folder}/{name}", stray)
        logger.warning("%s does not belong to a topic of this cluster; renamed to %s", name, stray)
        return stray

    def _report_recovery(self, partition: TopicPartition, recovery: RecoveryReport) -> None:
        self.report.loaded += 1
        if recovery.scanned_bytes or recovery.cut_bytes:
            self.report.recovered[partition] = recovery
        if recovery.cut_bytes:
            logger.warning(
                "%s: truncated %d bytes (%d readable batches) that were not flushed: %s",
                partition,
                recovery.cut_bytes,
                recovery.cut_batches,
                recovery.cut_reason,
            )
