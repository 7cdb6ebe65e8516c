"""A replica on its way to another log dir of its broker: the copy that is made of it, and how the copy takes over.

Theory of operation. The copy (Kafka's *future replica*) is a log of its own, in `<topic>-<partition>.<id>-future` of
the other dir. It is filled as a follower is, with batches as they are, from the log in use, which is written and read
meanwhile as if nothing happened. What is cut from the log is cut from the copy in the same moment. Neither is
compacted: a tombstone could go from the log after its record had been copied, and before it was copied itself.

When the copy has everything, the log goes on with the files of the copy (`Log.use_files_of`) and stays the same
object. The steps of that, in an order that a crash may interrupt anywhere:

    1.  the copy is synced, at least as far as the log is; a note in its folder names the dir that it replaces
    2.  -future -> no suffix      now both dirs hold the partition, and the note tells which of them counts
    3.  the target dir is synced, before the old folder goes
    4.  the old folder -> -delete, and its dir is synced
    5.  the note is removed, and that is synced: from now on it may move again

    COPYING --(2)--> SETTLING --(5)--> OVER;  any --(deleted, called off, a disk failed)--> OVER
"""

from __future__ import annotations

from enum import Enum

from barnabas.common.errors import KafkaError
from barnabas.common.files import FileSystem
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition, Uuid, uuid_to_text
from barnabas.log import names
from barnabas.log.checkpoints import read_if_there
from barnabas.log.dirs.log_dir import LogDir
from barnabas.log.log import Log
from barnabas.records.batch import Walked

logger = safe_logger(__name__)


class State(Enum):
    COPYING = "copying"
    SETTLING = "settling"
    OVER = "over"


class Move:
    """`log` is the one in use, `future` the copy; both belong to the loop."""

    def __init__(self, log: Log, future: Log, source: LogDir, target: LogDir) -> None:
        self.log = log
        self.future = future
        self.source = source
        self.target = target
        self.state = State.COPYING
        self.old_folder = log.folder
        self.failure: KafkaError | None = None
        """Why the copy could not be kept in step with the log."""

    @property
    def partition(self) -> TopicPartition:
        return self.log.topic_partition

    @property
    def lag(self) -> int:
        """Offsets that the copy lacks."""
        return self.log.log_end_offset - self.future.log_end_offset

    @property
    def may_take_over(self) -> bool:
        """Has the copy everything, and on the disk what the log has there?"""
        if self.log.has_pending or self.future.has_pending:
            return False
        return self.lag == 0 and self.future.recovery_point >= self.log.recovery_point

    def align(self, *, in_background: bool = True) -> None:
        """Use the settings of the log, and go on where it still has records."""
        log, future = self.log, self.future
        if future.config is not log.config:
            future.update_config(log.config)
        if not log.local_start_offset <= future.log_end_offset <= log.log_end_offset:
            self._start_again(in_background=in_background)

    def _start_again(self, *, in_background: bool) -> None:
        """Begin with what is on the log's disk. What is remote stays so, and the copy knows of it."""
        log, start = self.log, self.log.local_start_offset
        if log.remote_part is None:
            self.future.truncate_fully_and_start_at(start, in_background=in_background)
        else:
            self.future.start_at(
                start,
                log.log_start_offset,
                log.epochs.entries,
                log.snapshots.at(start),
                in_background=in_background,
            )

    def take(self, batches: memoryview, now_ms: int, walked: Walked | None = None) -> None:
        """Append what was read from the log at the end of the copy, or those batches of it that are named."""
        log, future = self.log, self.future
        if batches:
            future.append_as_follower(batches, now_ms, walked)
        future.advance_high_watermark(log.high_watermark)
        future.advance_log_start(min(log.log_start_offset, future.high_watermark))

    def is_cut(self, log_end: int) -> None:
        """The log is about to be cut: the copy first, so that it never has what the log has not."""
        if self.state is State.COPYING:
            try:
                self.future.truncate_to(log_end)
            except KafkaError as error:
                self.failure = error

    def agree(self) -> None:
        """After a start: cut what the log has lost, or never had, as a follower does (KIP-101)."""
        log, future = self.log, self.future
        known = {epoch for epoch, _ in log.epochs.entries}
        common = next((epoch for epoch, _ in reversed(future.epochs.entries) if epoch in known), None)
        if common is None:
            self._start_again(in_background=False)
        else:
            ends = log.epoch_end_offset(common)[1], future.epoch_end_offset(common)[1]
            future.truncate_to(min(ends))
        self.align(in_background=False)


# -- the note ---------------------------------------------------------------------------------------------


def write_note(fs: FileSystem, folder: str, replaced: Uuid) -> None:
    fs.write_atomic(f"{folder}/{names.MOVED_FROM}", f"{uuid_to_text(replaced)}\n".encode())


def read_note(fs: FileSystem, folder: str) -> str | None:
    """The id of the dir that a folder was moved from, if that is not over yet."""
    data = read_if_there(fs, f"{folder}/{names.MOVED_FROM}")
    return None if data is None else data.decode("ascii", "replace").strip()


def remove_note(fs: FileSystem, folder: str) -> None:
    """Nothing if there is none, or no such folder any more."""
    try:
        fs.remove(f"{folder}/{names.MOVED_FROM}")
        fs.sync_folder(folder)
    except FileNotFoundError:
        return
