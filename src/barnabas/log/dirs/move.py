"""Move of a replica to another log dir of its broker: the future replica, and the switch to its files.

Theory of operation. The future replica (Kafka's term) is a separate log, in `<topic>-<partition>.<id>-future` of the
target dir. It copies batches unchanged from the current log, as a follower does; the current log is written and read
as usual meanwhile. A truncation of the current log truncates the future replica first. Neither is compacted: compaction
could remove a tombstone from the current log after its record was copied, and before the tombstone was.

When the future replica has caught up, the log switches to its files (`Log.use_files_of`) and stays the same object.
A crash may interrupt the steps anywhere:

    1.  the future replica is synced, at least as far as the log is; a note in its folder names the dir it replaces
    2.  -future -> no suffix      now both dirs have the partition, and the note says which one is valid
    3.  the target dir is synced, before the old folder is removed
    4.  the old folder -> -delete, and its dir is synced
    5.  the note is removed, and that is synced: from now on the replica may move again

    COPYING --(2)--> SETTLING --(5)--> OVER;  any --(deleted, cancelled, a disk failed)--> OVER
"""

from __future__ import annotations

from enum import Enum

from barnabas.common.errors import KafkaError
from barnabas.common.files import FileSystem
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition, Uuid, uuid_to_text
from barnabas.log import names
from barnabas.log.checkpoints import read_if_exists
from barnabas.log.dirs.log_dir import LogDir
from barnabas.log.log import Log
from barnabas.records.batch import Walked

logger = safe_logger(__name__)


class MoveState(Enum):
    COPYING = "copying"
    SETTLING = "settling"
    OVER = "over"


class LogDirMove:
    """One move. `log` is the current log, `future` the future replica; both are owned by the event loop."""

    def __init__(self, log: Log, future: Log, source: LogDir, target: LogDir) -> None:
        self.log = log
        self.future = future
        self.source = source
        self.target = target
        self.state = MoveState.COPYING
        self.old_folder = log.folder
        self.failure: KafkaError | None = None
        """Error that keeps the future replica from following the log."""

    @property
    def partition(self) -> TopicPartition:
        return self.log.topic_partition

    @property
    def lag(self) -> int:
        """Offsets that the future replica is behind the log."""
        return self.log.log_end_offset - self.future.log_end_offset

    @property
    def may_take_over(self) -> bool:
        """True if the future replica has caught up, and is flushed at least as far as the log."""
        if self.log.has_pending or self.future.has_pending:
            return False
        return self.lag == 0 and self.future.recovery_point >= self.log.recovery_point

    def align(self, *, in_background: bool = True) -> None:
        """Adopt the config of the log, and start over if the log no longer has the next offset."""
        log, future = self.log, self.future
        if future.config is not log.config:
            future.update_config(log.config)
        if not log.local_start_offset <= future.log_end_offset <= log.log_end_offset:
            self._start_again(in_background=in_background)

    def _start_again(self, *, in_background: bool) -> None:
        """Start over at the local log start offset, with the state of the tiered part if there is one."""
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
        """Append batches read from the log to the future replica; `walked` are their headers, if parsed."""
        log, future = self.log, self.future
        if batches:
            future.append_as_follower(batches, now_ms, walked)
        future.advance_high_watermark(log.high_watermark)
        future.advance_log_start(min(log.log_start_offset, future.high_watermark))

    def is_cut(self, log_end: int) -> None:
        """Truncate the future replica before the log is truncated, so that it never has more than the log."""
        if self.state is MoveState.COPYING:
            try:
                self.future.truncate_to(log_end)
            except KafkaError as error:
                self.failure = error

    def agree(self) -> None:
        """Truncate the future replica to the common prefix with the log, after a restart, as followers do (KIP-101)."""
        log, future = self.log, self.future
        known = {epoch for epoch, _ in log.epochs.entries}
        common = next((epoch for epoch, _ in reversed(future.epochs.entries) if epoch in known), None)
        if common is None:
            self._start_again(in_background=False)
        else:
            ends = log.epoch_end_offset(common)[1], future.epoch_end_offset(common)[1]
            future.truncate_to(min(ends))
        self.align(in_background=False)


# -- the note file ----------------------------------------------------------------------------------------


def write_note(fs: FileSystem, folder: str, replaced: Uuid) -> None:
    fs.write_atomic(f"{folder}/{names.MOVED_FROM}", f"{uuid_to_text(replaced)}\n".encode())


def read_note(fs: FileSystem, folder: str) -> str | None:
    """Directory id that the folder was moved from, if the move has not finished yet."""
    data = read_if_exists(fs, f"{folder}/{names.MOVED_FROM}")
    return None if data is None else data.decode("ascii", "replace").strip()


def remove_note(fs: FileSystem, folder: str) -> None:
    """Remove the note; does nothing if the note or the folder does not exist."""
    try:
        fs.remove(f"{folder}/{names.MOVED_FROM}")
        fs.sync_folder(folder)
    except FileNotFoundError:
        return
