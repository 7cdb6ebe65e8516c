"""In which log dir a new partition is put."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.log.dirs.log_dir import LogDir
from barnabas.common.types import TopicPartition

MOST_PREFERRED = 10_000  # partitions that an operator has asked for and that may never come


class Placement:
    """`dir_of` says which dir holds each partition that is here."""

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
        """The log dir at an absolute path, to put a partition into; KafkaError if that cannot be."""
        found = [log_dir for log_dir in self._dirs if os.path.abspath(log_dir.folder) == path]
        if not found:
            folders = ", ".join(log_dir.folder for log_dir in self._dirs)
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not one of log.dirs: {folders}")
        if found[0].disk.error is not None:
            raise found[0].disk.error
        if self.is_cordoned(found[0].folder):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{path} is cordoned: take it out of cordoned.log.dirs"
            )
        return found[0]

    def prefer(self, partition: TopicPartition, log_dir: LogDir) -> None:
        """Put a partition that is not here yet into this dir when it is created, as Kafka does."""
        while len(self._preferred) >= MOST_PREFERRED:
            del self._preferred[next(iter(self._preferred))]
        self._preferred[partition] = log_dir

    def prepare(self, partitions: Iterable[TopicPartition]) -> list[LogDir]:
        """Choose dirs for many partitions that will be created soon."""
        held, chosen = self._partitions_held(), []
        for partition in partitions:
            log_dir = self._prepared[partition] = self._dir_for(partition, held)
            held[log_dir] += 1
            chosen.append(log_dir)
        return chosen

    def choose(self, partition: TopicPartition) -> LogDir:
        """The dir for a partition that is created now: the one with the fewest partitions, if nothing else was said."""
        log_dir = self._prepared.pop(partition, None) or self._dir_for(partition, self._partitions_held())
        self._preferred.pop(partition, None)
        return log_dir

    def _partitions_held(self) -> Counter[LogDir]:
        """How many partitions each dir holds, or will hold soon."""
        if len(self._dirs) == 1:
            return Counter()  # nothing to choose from
        return Counter((*self._dir_of.values(), *self._prepared.values()))

    def _dir_for(self, partition: TopicPartition, held: Counter[LogDir]) -> LogDir:
        wanted = self._preferred.get(partition)
        return wanted if wanted is not None and wanted.disk.error is None else self._emptiest_dir(held)

    def _emptiest_dir(self, held: Counter[LogDir]) -> LogDir:
        online = [log_dir for log_dir in self._dirs if log_dir.disk.error is None]
        if not online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no log dir is online: see the broker's log")
        if len(online) == 1:
            return online[0]
        online = [log_dir for log_dir in online if not self.is_cordoned(log_dir.folder)] or online
        return min(online, key=lambda log_dir: held[log_dir])
