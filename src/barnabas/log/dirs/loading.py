"""The start: every partition's folder in a log dir becomes a log, or it is said why not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import FileSystem
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import ZERO_UUID, TopicPartition, Uuid
from barnabas.config.topic import LogConfig
from barnabas.log import names
from barnabas.log.checkpoints import CheckpointError, decode_partition_metadata, read_if_there
from barnabas.log.dirs.log_dir import ACCEPTED_LOSSES, DAMAGED_PARTITIONS, Checkpoints, LogDir
from barnabas.log.dirs.missing import noted_without_folder
from barnabas.log.dirs.properties import remove_clean_shutdown, write_boot_id, write_clean_shutdown
from barnabas.log.failures import DamagedLog, MissingLog
from barnabas.log.flushing import FlushJob
from barnabas.log.local_log import LogState
from barnabas.log.log import Log
from barnabas.log.recovery.recovery import Recovery
from barnabas.log.recovery.verification import RecoveryReport, Stop
from barnabas.log.segments.segment_file import OpenSegments

# -- A clean end of all logs of a log dir --------------------------------------------------------------


def close_dir(log_dir: LogDir, logs: list[Log], threads: int, broker_epoch: int) -> None:
    """Write and sync everything, then mark the dir clean. Nothing may be appended any more."""
    jobs = [log.prepare_close() for log in logs]
    _run_all(jobs, threads)
    for log, job in zip(logs, jobs, strict=True):
        log.complete_flush(job)
    log_dir.checkpoint(logs).run()
    if log_dir.disk.error is None:
        write_clean_shutdown(log_dir.fs, log_dir.folder, broker_epoch)


def _run_all(jobs: Iterable[FlushJob], threads: int) -> None:
    """A job with nothing to write needs no thread, and neither does one alone."""
    busy = [job for job in jobs if job.files or job.paths or job.folders]
    if len(busy) == 1 or threads == 1:
        for job in busy:
            job.run()
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(FlushJob.run, busy))


KRAFT_METADATA = "__cluster_metadata-0"
"""Apache Kafka's own metadata log: never served, never changed."""

Expected = Callable[[TopicPartition, Uuid | None], LogConfig | None]
"""The settings of a partition that belongs here, by its name and the topic id in its folder; None for a stray."""

logger = safe_logger(__name__)


@dataclass(slots=True)
class LoadReport:
    """What the start found."""

    stops: dict[str, Stop] = field(default_factory=dict)
    loaded: int = 0
    recovered: dict[TopicPartition, RecoveryReport] = field(default_factory=dict)
    damaged: dict[TopicPartition, DamagedLog] = field(default_factory=dict)
    strays: list[str] = field(default_factory=list)

    @property
    def cut_bytes(self) -> int:
        return sum(report.cut_bytes for report in self.recovered.values())


class Loader:
    """One use: all log dirs of a broker, one after the other."""

    def __init__(self, fs: FileSystem, open_segments: OpenSegments, expected: Expected, now_ms: int) -> None:
        self._fs = fs
        self._open_segments = open_segments
        self._expected = expected
        self._now_ms = now_ms
        self.report = LoadReport()
        self.logs: dict[TopicPartition, Log] = {}
        self.dir_of: dict[TopicPartition, LogDir] = {}
        self.retired: list[str] = []
        """Folders of partitions that were deleted before the stop."""
        self.futures: dict[TopicPartition, tuple[Log, LogDir]] = {}
        """Copies of partitions that were on their way to another log dir."""
        self._noted: dict[tuple[LogDir, TopicPartition], int] = {}
        """Ends of logs that a dir notes and does not hold."""

    def load(self, log_dir: LogDir, boot_id: str | None) -> None:
        """OSError when the disk fails; KafkaError when a partition is in two places."""
        stop = self.report.stops[log_dir.folder] = log_dir.how_it_stopped(boot_id)
        checkpoints = log_dir.read_checkpoints()
        known_damage = log_dir.read_partitions(DAMAGED_PARTITIONS)
        self._keep_notes(log_dir, checkpoints, stop, known_damage)
        for partition in self._partitions(log_dir):
            how = Stop.CRASHED if partition in known_damage else stop
            self._load_partition(log_dir, partition, how, checkpoints)
        for name in self._fs.list(log_dir.folder):
            if (moving := names.partition_of_future(name)) is not None:
                self._load_future(log_dir, name, moving, checkpoints)
        # Until others have been told of a loss, every start must find it out again (`loss_is_told`).
        self._settle(log_dir, None if stop is Stop.CRASHED else boot_id)
        if stop is not Stop.CLEAN and self.report.recovered:
            logger.info(
                "%s was not closed (%s): %d bytes of %d partitions were checked, %d bytes cut",
                log_dir.folder,
                stop.value,
                sum(recovery.scanned_bytes for recovery in self.report.recovered.values()),
                len(self.report.recovered),
                self.report.cut_bytes,
            )

    def _keep_notes(
        self, log_dir: LogDir, checkpoints: Checkpoints, stop: Stop, known_damage: set[TopicPartition]
    ) -> None:
        """Of partitions without a folder here, until all dirs have been looked at."""
        names_in_dir = set(self._fs.list(log_dir.folder))
        noted = noted_without_folder(
            checkpoints, names_in_dir, lambda each: stop is Stop.CRASHED and each not in known_damage
        )
        for partition, (_, end) in noted.items():
            if self._expected(partition, None) is not None:
                log_dir.keep(partition, checkpoints)
                self._noted[log_dir, partition] = end

    def find_missing(self, dirs: Iterable[LogDir]) -> None:
        """All dirs have been loaded, and none is offline: what one of them notes must be in one of them."""
        for log_dir in dirs:
            noted = {partition: end for (where, partition), end in self._noted.items() if where is log_dir}
            accepted = log_dir.read_partitions(ACCEPTED_LOSSES)
            for partition, end in noted.items():
                if self.dir_of.setdefault(partition, log_dir) is not log_dir:
                    log_dir.forget(partition)  # it has moved
                    continue
                self.report.damaged[partition] = MissingLog(
                    f"{log_dir.folder}/{partition}", partition.topic, end, is_accepted=partition in accepted
                )
            if noted:
                self._write_damaged(log_dir)
            # An acceptance counts for one loss: not if the folder is back, or the topic gone.
            if not accepted <= noted.keys():
                log_dir.write_partitions(ACCEPTED_LOSSES, accepted & noted.keys())

    def _partitions(self, log_dir: LogDir) -> Iterable[TopicPartition]:
        for name in self._fs.list(log_dir.folder):
            folder = f"{log_dir.folder}/{name}"
            if name.endswith(names.DELETE_FOLDER):
                self.retired.append(folder)
                continue
            partition = names.partition_of_folder(name)
            if partition is not None and name != KRAFT_METADATA and self._fs.is_folder(folder):
                yield partition

    def _settle(self, log_dir: LogDir, boot_id: str | None) -> None:
        """Note what was found. In this order: a crash in between must not make the next start believe too much."""
        here = [partition for partition, place in self.dir_of.items() if place is log_dir]
        log_dir.read_cleaned(here)
        self._write_damaged(log_dir)
        logs = [self.logs[partition] for partition in here if partition in self.logs]
        log_dir.write_checkpoint(log_dir.checkpoint(logs))
        remove_clean_shutdown(self._fs, log_dir.folder)
        if boot_id is not None:
            write_boot_id(self._fs, log_dir.folder, boot_id)

    def _write_damaged(self, log_dir: LogDir) -> None:
        damaged = [each for each in self.report.damaged if self.dir_of[each] is log_dir]
        log_dir.write_partitions(DAMAGED_PARTITIONS, damaged)

    def _load_partition(
        self, log_dir: LogDir, partition: TopicPartition, stop: Stop, checkpoints: Checkpoints
    ) -> None:
        folder = f"{log_dir.folder}/{partition}"
        topic_id = self._topic_id(folder)
        config = self._expected(partition, topic_id)
        if config is None:
            self.report.strays.append(self.set_aside(log_dir, str(partition), partition))
            return
        self._note_place(partition, log_dir)
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
        # After a crash, what was cut before it may be back: only what is synced for certain counts as committed, and
        # a follower learns the rest from its leader.
        log.advance_high_watermark(min(known, parts.recovery_point) if stop is Stop.CRASHED else known)
        self._tell(partition, recovery.report)

    def _recovery(
        self,
        folder: str,
        partition: TopicPartition,
        config: LogConfig,
        stop: Stop,
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
        """A copy that was not finished. One that is of no use is set aside; the partition itself is elsewhere."""
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
            logger.warning("%s does not move any more, ask for it again: %s", partition, damage)
            self.report.strays.append(self.set_aside(log_dir, name, partition))
            return
        future = self._log(folder, partition, topic_id, config, parts, log_dir)
        self.futures[partition] = future, log_dir

    def _note_place(self, partition: TopicPartition, log_dir: LogDir) -> None:
        other = self.dir_of.setdefault(partition, log_dir)
        if other is not log_dir:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{partition} is in {other.folder} and in {log_dir.folder}: move the wrong one elsewhere",
            )

    def _topic_id(self, folder: str) -> Uuid | None:
        data = read_if_there(self._fs, f"{folder}/{names.PARTITION_METADATA}")
        try:
            return None if data is None else decode_partition_metadata(data)
        except CheckpointError as error:
            logger.warning("%s/%s cannot be read: %s", folder, names.PARTITION_METADATA, error)
            return None

    def set_aside(self, log_dir: LogDir, name: str, partition: TopicPartition) -> str:
        stray = f"{log_dir.folder}/{names.retired_folder_name(partition, names.STRAY_FOLDER)}"
        self._fs.rename(f"{log_dir.folder}/{name}", stray)
        logger.warning("%s belongs to no topic of this cluster; it is kept as %s", name, stray)
        return stray

    def _tell(self, partition: TopicPartition, recovery: RecoveryReport) -> None:
        self.report.loaded += 1
        if recovery.scanned_bytes or recovery.cut_bytes:
            self.report.recovered[partition] = recovery
        if recovery.cut_bytes:
            logger.warning(
                "%s: cut %d bytes (%d batches that could be told apart) that had not reached the disk: %s",
                partition,
                recovery.cut_bytes,
                recovery.cut_batches,
                recovery.cut_reason,
            )
