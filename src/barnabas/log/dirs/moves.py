"""All moves of replicas between the log dirs of a broker. log/dirs/move.py explains the steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import TYPE_CHECKING

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition, uuid_to_text
from barnabas.log import names
from barnabas.log.dirs.log_dir import LogDir, checkpoints_of
from barnabas.log.dirs.move import LogDirMove, MoveState, read_note, remove_note, write_note
from barnabas.log.dirs.placement import create_log
from barnabas.log.log import Log
from barnabas.log.segments.segment_file import OpenSegments

if TYPE_CHECKING:
    from barnabas.log.dirs.manager import LogManager

logger = safe_logger(__name__)


class Moves:
    """The moves of a LogManager, which passes its map of log dirs (`dir_of`) and its handler of disk failures."""

    def __init__(
        self,
        logs: LogManager,
        dir_of: dict[TopicPartition, LogDir],
        open_segments: OpenSegments,
        remove_later: Callable[[str, int], None],
        disk_failed: Callable[[LogDir, OSError], KafkaError],
    ) -> None:
        self._fs = logs.fs
        self._logs = logs
        self._dir_of = dir_of
        self._open_segments = open_segments
        self._remove_later = remove_later
        self._disk_failed = disk_failed
        self._moves: dict[TopicPartition, LogDirMove] = {}

    def __iter__(self) -> Iterator[LogDirMove]:
        return iter(list(self._moves.values()))

    def get(self, partition: TopicPartition) -> LogDirMove | None:
        return self._moves.get(partition)

    def copying(self, partition: TopicPartition) -> bool:
        move = self._moves.get(partition)
        return move is not None and move.state is MoveState.COPYING

    def futures_in(self, log_dir: LogDir) -> list[Log]:
        """Future replicas in a dir."""
        return [
            move.future
            for move in self._moves.values()
            if move.target is log_dir and move.state is MoveState.COPYING
        ]

    # -- starting and cancelling --------------------------------------------------------------------

    def begin(self, log: Log, target: LogDir) -> LogDirMove:
        """Create the future replica in another dir; raise KafkaError if that dir cannot be written."""
        partition = log.topic_partition
        folder = f"{target.folder}/{_future_name(partition)}"
        try:
            future = create_log(
                self._fs,
                folder,
                partition,
                log.topic_id,
                log.config,
                disk=target.disk,
                open_segments=self._open_segments,
                now_ms=self._logs.clock.now_ms(),
            )
        except OSError as error:
            raise self._disk_failed(target, error) from error
        move = self._add(log, future, target)
        move.align()
        return move

    def resume(self, log: Log, future: Log, target: LogDir) -> None:
        """Resume a move whose future replica was loaded at startup."""
        move = self._add(log, future, target)
        try:
            move.agree()
        except KafkaError as error:
            move.failure = error

    def _add(self, log: Log, future: Log, target: LogDir) -> LogDirMove:
        move = LogDirMove(log, future, self._dir_of[log.topic_partition], target)
        self._moves[log.topic_partition] = move
        future.connect(before_truncation=lambda end: self._logs.checkpoint_step(target))
        return move

    def drop(self, partition: TopicPartition) -> None:
        """End a move: the partition was deleted, the move was cancelled, or the future replica is unusable."""
        move = self._moves.pop(partition, None)
        if move is None or move.state is MoveState.OVER:
            return
        previous, move.state = move.state, MoveState.OVER
        if previous is MoveState.SETTLING:
            self._retire(move.source, move.old_folder, partition)
            move.source.forget(partition)
        else:
            move.future.abandon()
            self._retire(move.target, move.future.folder, partition)
            move.target.forget(partition)

    def lost(self, log_dir: LogDir) -> None:
        """Suspend the moves from and to a failed disk until the next start."""
        for move in self:
            if log_dir in (move.source, move.target):
                del self._moves[move.partition]
                if move.state is MoveState.COPYING:
                    move.future.abandon()
                move.state = MoveState.OVER

    def _retire(self, log_dir: LogDir, folder: str, partition: TopicPartition) -> None:
        if log_dir.disk.error is not None:
            return
        retired = f"{log_dir.folder}/{names.retired_folder_name(partition, names.DELETE_FOLDER)}"
        try:
            self._fs.rename(folder, retired)
        except OSError as error:
            self._disk_failed(log_dir, error)
            return
        log = self._logs.get(partition)
        delay_ms = log.config.file_delete_delay_ms if log is not None else 0
        self._remove_later(retired, self._logs.clock.now_ms() + delay_ms)

    # -- steps of the switch ------------------------------------------------------------------------

    def leave_note(self, move: LogDirMove) -> Callable[[], None]:
        """Write the note (end of step 1). Returns the work, to run in any thread."""
        checkpoint = self._logs.checkpoint_job_of(move.target)

        def work() -> None:
            remove_note(self._fs, move.old_folder)
            write_note(self._fs, move.future.folder, move.source.directory_id)
            checkpoint.run()

        return work

    def change(self, move: LogDirMove) -> None:
        """Step 2, on the event loop: switch the log to the new files. Raise KafkaError if nothing has changed."""
        log, partition = move.log, move.partition
        folder = f"{move.target.folder}/{partition}"
        if partition in move.target.unwritten_deletions:
            self._logs.checkpoint_dir(move.target)
        try:
            self._fs.rename(move.future.folder, folder)
        except OSError as error:
            raise self._disk_failed(move.target, error) from error
        # A crash may undo the rename and make the old folder valid again, so its checkpoint entries are kept.
        move.source.keep(partition, checkpoints_of(log))
        if (cleaned := move.source.cleaned.get(partition)) is not None:
            move.target.cleaned[partition] = cleaned
        log.use_files_of(move.future, folder)
        self._dir_of[partition] = move.target
        move.state = MoveState.SETTLING

    def sync_target(self, move: LogDirMove) -> None:
        """Step 3, in any thread."""
        self._fs.sync_folder(move.target.folder)

    def retire_source(self, move: LogDirMove) -> None:
        """Step 4, on the event loop. Raise KafkaError if the old folder was not renamed: the note must stay, too."""
        self._retire(move.source, move.old_folder, move.partition)
        if move.source.disk.error is not None:
            raise move.source.disk.error
        move.source.forget(move.partition)

    def remove_note(self, move: LogDirMove) -> None:
        """End of step 4, and step 5, in any thread."""
        self._fs.sync_folder(move.source.folder)
        remove_note(self._fs, move.log.folder)

    def end(self, move: LogDirMove) -> None:
        """Mark the move as finished, on the event loop."""
        if self._moves.get(move.partition) is move:
            del self._moves[move.partition]
        move.state = MoveState.OVER

    # -- starting -----------------------------------------------------------------------------------

    def resolve_duplicate(
        self, held: dict[LogDir, set[str]], is_ours: Callable[[TopicPartition], bool]
    ) -> None:
        """Finish interrupted moves from step 3 on. `held` has the names of the folders in each dir."""
        for target, source in permutations(held, 2):
            for name in held[target] & held[source]:
                partition = names.partition_of_folder(name)
                if partition is not None and is_ours(partition) and self._replaces(target, name, source):
                    try:
                        self._finish(partition, source, target)
                    except OSError as error:
                        self._disk_failed(target, error)

    def _replaces(self, target: LogDir, name: str, source: LogDir) -> bool:
        return read_note(self._fs, f"{target.folder}/{name}") == uuid_to_text(source.directory_id)

    def _finish(self, partition: TopicPartition, source: LogDir, target: LogDir) -> None:
        logger.info(
            "%s was moved to %s: removing its old folder in %s", partition, target.folder, source.folder
        )
        self._fs.sync_folder(target.folder)
        self._retire(source, f"{source.folder}/{partition}", partition)
        if source.disk.error is None:
            source.forget(partition)
            self._fs.sync_folder(source.folder)
            remove_note(self._fs, f"{target.folder}/{partition}")


def _future_name(partition: TopicPartition) -> str:
    name = names.retired_folder_name(partition, names.FUTURE_FOLDER)
    if names.partition_of_future(name) != partition:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"cannot move {partition}: the name of its -future folder would be too long",
        )
    return name
