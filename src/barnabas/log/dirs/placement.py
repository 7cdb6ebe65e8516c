"""Choice of the log dir for a new partition, and creation of its log."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import FileSystem
from barnabas.common.types import TopicPartition, Uuid
from barnabas.config.topic import LogConfig
from barnabas.log import names
from barnabas.log.checkpoints import encode_partition_metadata, read_if_exists
from barnabas.log.dirs.disk import Disk
from barnabas.log.dirs.log_dir import LogDir
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.local_log import LogState, Unsynced
from barnabas.log.log import Log
from barnabas.log.producers import ProducerStates
from barnabas.log.recovery.snapshots import SnapshotFiles
from barnabas.log.segments.segment import Segment
from barnabas.log.segments.segment_file import OpenSegments

# -- A new, empty log ----------------------------------------------------------------------------------


def make_files(fs: FileSystem, folder: str, topic_id: Uuid) -> None:
    """Create the files of a new log, the slow part of its creation. Idempotent, and safe in a thread."""
    metadata = f"{folder}/{names.PARTITION_METADATA}"
    contents = encode_partition_metadata(topic_id)
    if read_if_exists(fs, metadata) != contents:
        fs.make_folders(folder)
        fs.write_atomic(metadata, contents, sync=False)
        fs.open(names.path_of(folder, 0, names.LOG), create=True).close()


def create_log(
    fs: FileSystem,
    folder: str,
    topic_partition: TopicPartition,
    topic_id: Uuid,
    config: LogConfig,
    *,
    disk: Disk,
    open_segments: OpenSegments,
    now_ms: int,
    roll_jitter: float = 0.0,
) -> Log:
    """Create a log with the topic id and an empty first segment. Raise OSError if the disk fails or is full."""
    make_files(fs, folder, topic_id)
    metadata = f"{folder}/{names.PARTITION_METADATA}"
    segment = Segment.create(fs, folder, 0, open_segments, now_ms)
    snapshots = SnapshotFiles(fs, folder)
    parts = LogState(
        [segment],
        log_start=0,
        log_end=0,
        recovery_point=0,
        producers=ProducerStates(),
        epochs=LeaderEpochs(),
        snapshots=snapshots,
        unsynced=Unsynced([folder, os.path.dirname(folder)], [metadata]),
    )
    return Log(
        fs,
        folder,
        topic_partition,
        topic_id,
        config,
        parts,
        disk=disk,
        open_segments=open_segments,
        roll_jitter=roll_jitter,
    )


MAX_PREFERRED = 10_000  # requests for partitions that may never be created


class LogDirPlacement:
    """Chooses log dirs; `dir_of` maps each existing partition to its dir."""

    def __init__(self, dirs: list[LogDir], dir_of: Mapping[TopicPartition, LogDir]) -> None:
        self._dirs = dirs
        self._dir_of = dir_of
        self._prepared: dict[TopicPartition, LogDir] = {}
        self._preferred: dict[TopicPartition, LogDir] = {}
        self._cordoned: frozenset[str] = frozenset()

    def use_cordoned(self, folders: Iterable[str]) -> None:
        self._cordoned = frozenset(folder.rstrip(os.sep) for folder in folders)

    def is_cordoned(self, folder: str) -> bool:
        return folder in self._cordoned

    def dir_named(self, path: str) -> LogDir:
        """Return the log dir at an absolute path, as the target of a partition; raise KafkaError if it cannot be."""
        matches = [log_dir for log_dir in self._dirs if os.path.abspath(log_dir.folder) == path]
        if not matches:
            folders = ", ".join(log_dir.folder for log_dir in self._dirs)
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not one of log.dirs: {folders}")
        if matches[0].disk.error is not None:
            raise matches[0].disk.error
        if self.is_cordoned(matches[0].folder):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{path} is cordoned: remove it from cordoned.log.dirs"
            )
        return matches[0]

    def prefer(self, partition: TopicPartition, log_dir: LogDir) -> None:
        """Use this dir for a partition that will be created later, as Kafka does."""
        while len(self._preferred) >= MAX_PREFERRED:
            del self._preferred[next(iter(self._preferred))]
        self._preferred[partition] = log_dir

    def prepare(self, partitions: Iterable[TopicPartition]) -> list[LogDir]:
        """Choose dirs for many partitions that will be created soon."""
        counts, chosen = self._partition_counts(), []
        for partition in partitions:
            log_dir = self._prepared[partition] = self._dir_for(partition, counts)
            counts[log_dir] += 1
            chosen.append(log_dir)
        return chosen

    def choose(self, partition: TopicPartition) -> LogDir:
        """Return the dir for a new partition: prepared, preferred, or else the one with the fewest partitions."""
        log_dir = self._prepared.pop(partition, None) or self._dir_for(partition, self._partition_counts())
        self._preferred.pop(partition, None)
        return log_dir

    def _partition_counts(self) -> Counter[LogDir]:
        """Number of partitions in each dir, including those that will be created soon."""
        if len(self._dirs) == 1:
            return Counter()  # no choice
        return Counter((*self._dir_of.values(), *self._prepared.values()))

    def _dir_for(self, partition: TopicPartition, counts: Counter[LogDir]) -> LogDir:
        preferred = self._preferred.get(partition)
        if preferred is not None and preferred.disk.error is None:
            return preferred
        return self._emptiest_dir(counts)

    def _emptiest_dir(self, counts: Counter[LogDir]) -> LogDir:
        online = [log_dir for log_dir in self._dirs if log_dir.disk.error is None]
        if not online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no log dir is online: see the broker's log")
        if len(online) == 1:
            return online[0]
        online = [log_dir for log_dir in online if not self.is_cordoned(log_dir.folder)] or online
        return min(online, key=lambda log_dir: counts[log_dir])
