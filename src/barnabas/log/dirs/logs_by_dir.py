"""The logs of a broker, and the log dir of each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from barnabas.common.files import FileSystem
from barnabas.common.types import TopicPartition, uuid_to_text
from barnabas.log.dirs.loading import KRAFT_METADATA
from barnabas.log.dirs.log_dir import LogDir
from barnabas.log.dirs.properties import MetaProperties
from barnabas.log.log import Log
from barnabas.log.names import partition_of_folder


class LogsByDir:
    """Queries of a LogManager."""

    def __init__(self, fs: FileSystem, dirs: list[LogDir]) -> None:
        self.fs = fs
        self.dirs = dirs
        self._logs: dict[TopicPartition, Log] = {}
        self._dir_of: dict[TopicPartition, LogDir] = {}

    def __iter__(self) -> Iterator[Log]:
        return iter(self._logs.values())

    def __len__(self) -> int:
        return len(self._logs)

    def get(self, partition: TopicPartition) -> Log | None:
        return self._logs.get(partition)

    @property
    def folders(self) -> list[str]:
        return [log_dir.folder for log_dir in self.dirs]

    def in_folder(self, folder: str) -> list[Log]:
        if len(self.dirs) == 1:
            return list(self._logs.values())
        return [log for log in self._logs.values() if self._dir_of[log.topic_partition].folder == folder]

    @property
    def offline_dirs(self) -> dict[str, str]:
        """Log dirs whose disk failed, with the reason."""
        return {
            log_dir.folder: str(log_dir.disk.error) for log_dir in self.dirs if log_dir.disk.error is not None
        }

    @property
    def cluster_id(self) -> str | None:
        """Cluster id of the log dirs; None if they are new."""
        meta = self._identity()
        return None if meta is None else meta.cluster_id

    @property
    def folder_id(self) -> str | None:
        """Directory id of the first log dir that has one; None if all are new."""
        meta = self._identity()
        return None if meta is None else uuid_to_text(meta.directory_id)

    def _identity(self) -> MetaProperties | None:
        identities = (log_dir.state.identity() for log_dir in self.dirs)
        return next((meta for meta in identities if meta is not None), None)

    def partitions_on_disk(self) -> set[TopicPartition]:
        """Partitions that have a folder in a log dir, whichever process has them open."""
        found = set()
        for log_dir in self._online():
            with suppress(OSError):  # loading the dir fails in the same way, and reports it
                found |= set(map(partition_of_folder, self.fs.list(log_dir.folder)))
        return {each for each in found if each is not None and str(each) != KRAFT_METADATA}

    def dir_of(self, partition: TopicPartition) -> LogDir | None:
        return self._dir_of.get(partition)

    def _online(self) -> Iterator[LogDir]:
        return (log_dir for log_dir in self.dirs if log_dir.disk.error is None)

    def cleaned_upto(self, log: Log) -> int | None:
        """Offset up to which a log was compacted; None if it never was."""
        return self._dir_of[log.topic_partition].cleaned.get(log.topic_partition)

    def note_cleaned(self, log: Log, offset: int) -> None:
        """Record that a log is compacted, and synced, below `offset`; the next checkpoint has it."""
        self._dir_of[log.topic_partition].cleaned[log.topic_partition] = offset
