"""Closing one partition of a running broker so that another process can open it, and opening one that was closed.

The folder stays where it is. Both directions alternate between the event loop and a thread:

    close   leave the manager (loop), sync the files (thread), note the end (loop), write the checkpoints (thread)
    open    recover the log (thread), join the manager (loop)

A partition that was closed like this is CLEAN: its files, indexes and producer snapshot are complete, and the
checkpoints have its offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.types import TopicPartition
from barnabas.log.dirs.loading import Expected, Loader
from barnabas.log.dirs.log_dir import LogDir, checkpoints_of
from barnabas.log.dirs.move import MoveState
from barnabas.log.flushing import FlushJob
from barnabas.log.log import Log
from barnabas.log.recovery.verification import ShutdownKind
from barnabas.log.segments.segment_file import OpenSegments

if TYPE_CHECKING:
    from barnabas.log.dirs.manager import LogManager


class ClosingLog(NamedTuple):
    log: Log
    log_dir: LogDir
    job: FlushJob
    """Syncs the files, in any thread."""


class LogHandover:
    """Handovers of a LogManager, which passes its maps and what adds a log to them."""

    def __init__(
        self,
        logs: LogManager,
        logs_by_partition: dict[TopicPartition, Log],
        dir_of: dict[TopicPartition, LogDir],
        open_segments: OpenSegments,
        adopt: Callable[[Log], Log],
    ) -> None:
        self._logs = logs
        self._logs_by_partition = logs_by_partition
        self._dir_of = dir_of
        self._open_segments = open_segments
        self._adopt = adopt

    # -- closing ------------------------------------------------------------------------------------

    def is_movable(self, partition: TopicPartition) -> bool:
        """False while a move to another log dir is between its steps: it must end first, or a power failure could
        leave the partition without a folder."""
        move = self._logs.moves.get(partition)
        return move is None or move.state is not MoveState.SETTLING

    def begin_closing(self, partition: TopicPartition) -> ClosingLog | None:
        """Write everything; None if the partition is not open. There must be no appends afterwards. A move to another
        log dir is cancelled. Raise KafkaError if the disk fails."""
        log = self._logs.get(partition)
        if log is None:
            return None
        self._logs.moves.drop(partition)
        log_dir, job = self._dir_of[partition], log.prepare_close()
        log_dir.keep(partition, checkpoints_of(log))
        del self._logs_by_partition[partition]  # no housekeeping, no checkpoint of the log itself
        return ClosingLog(log, log_dir, job)

    def end_closing(self, closing: Iterable[ClosingLog]) -> list[LogDir]:
        """Note the ends of synced logs. Return their log dirs: another process may open the partitions only after their
        checkpoints are written (`checkpoint_step`)."""
        log_dirs: dict[LogDir, None] = {}
        for log, log_dir, job in closing:
            log.complete_flush(job)
            log_dir.keep(log.topic_partition, checkpoints_of(log))
            del self._dir_of[log.topic_partition]
            log.abandon()
            log_dirs[log_dir] = None
        return list(log_dirs)

    def released(self, partition: TopicPartition) -> None:
        """Write nothing about a partition that another process may open. What is kept of it becomes outdated."""
        for log_dir in self._logs.dirs:
            log_dir.release(partition)

    # -- opening ------------------------------------------------------------------------------------

    def opening(
        self, stops: Mapping[TopicPartition, ShutdownKind], expected: Expected
    ) -> Callable[[], Loader]:
        """Return the step, for any thread, that recovers partitions; `stops` says how each was closed. A partition
        without a folder is skipped, unless a checkpoint has records of it. The step raises OSError if a disk fails."""
        loader = Loader(
            self._logs.fs,
            self._open_segments,
            expected,
            self._logs.clock.now_ms(),
            is_ours=stops.__contains__,
        )
        log_dirs = [log_dir for log_dir in self._logs.dirs if log_dir.disk.error is None]
        is_complete = len(log_dirs) == len(self._logs.dirs)

        def recover() -> Loader:
            if len(log_dirs) > 1:  # a move to another log dir may have been interrupted
                names = {log_dir: set(self._logs.fs.list(log_dir.folder)) for log_dir in log_dirs}
                self._logs.moves.resolve_duplicate(names, stops.__contains__)
            loader.load_some(log_dirs, stops, is_complete=is_complete)
            return loader

        return recover

    def end_opening(self, loader: Loader, stops: Mapping[TopicPartition, ShutdownKind]) -> None:
        """Add recovered logs to the manager, on the event loop."""
        self._dir_of |= loader.dir_of
        self._logs.damaged |= loader.report.damaged
        for log_dir in self._logs.dirs:
            log_dir.others_have_written(stops)
            for partition in stops.keys() - loader.dir_of.keys():
                # Before a log of this name is created: it would inherit the offsets of a deleted one.
                log_dir.forget(partition)
        for partition, log in loader.logs.items():
            log_dir = loader.dir_of[partition]
            log_dir.drop_kept(partition)
            if partition in loader.cleaned:
                log_dir.cleaned[partition] = loader.cleaned[partition]
            self._adopt(log)
