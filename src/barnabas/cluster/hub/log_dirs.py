"""The log dirs of a node that several processes serve: the hub alone writes at their tops.

Checkpoints are kept in memory, and a file is written whole. A process replaces the entries of the partitions that it
has open, and no others: so a late write of an earlier holder changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from barnabas.cluster.hub.messages import (
    AboutLogDir,
    ClaimDir,
    DirClosed,
    HeldPartition,
    LogDirAnswer,
    LossReported,
    ReadIdentity,
    ReadOffsets,
    ReadPartitions,
    ReadShutdown,
    WriteOffsets,
    WritePartitions,
)
from barnabas.cluster.hub.state import HubState
from barnabas.common.errors import KafkaError
from barnabas.common.files import FileSystem
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition, Uuid
from barnabas.log import DISK_FULL, DiskFull, LogDirError
from barnabas.log.dirs import FileLogDirState
from barnabas.log.recovery import ShutdownKind

logger = safe_logger(__name__)


class _KeptDir:
    """One log dir; files are read when they are asked for first."""

    def __init__(self, fs: FileSystem, folder: str) -> None:
        self.state = FileLogDirState(fs, folder)
        self.folder = folder
        self.stop = ShutdownKind.CRASHED
        self.error: OSError | None = None
        """Set when the disk has failed: the processes learn of it by their next questions."""
        self._offsets: dict[str, dict[TopicPartition, int]] = {}
        self._partitions: dict[str, set[TopicPartition]] = {}

    def offsets(self, name: str) -> dict[TopicPartition, int]:
        if name not in self._offsets:
            self._offsets[name] = self.state.read_offsets(name)
        return self._offsets[name]

    def partitions(self, name: str) -> set[TopicPartition]:
        if name not in self._partitions:
            self._partitions[name] = self.state.read_partitions(name)
        return self._partitions[name]

    def replace_offsets(
        self, name: str, is_mine: Callable[[TopicPartition], bool], entries: dict[TopicPartition, int]
    ) -> None:
        before = self.offsets(name)
        after = {partition: offset for partition, offset in before.items() if not is_mine(partition)}
        after |= {partition: offset for partition, offset in entries.items() if is_mine(partition)}
        if after != before:
            self.state.write_offsets(name, after)
            self._offsets[name] = after

    def drop(self, partitions: set[TopicPartition]) -> None:
        """Remove all entries of partitions."""
        for name, offsets in self._offsets.items():
            if not partitions.isdisjoint(offsets):
                self.replace_offsets(name, partitions.__contains__, {})
        for name, listed in self._partitions.items():
            if not partitions.isdisjoint(listed):
                self.replace_partitions(name, partitions.__contains__, ())

    def replace_partitions(
        self, name: str, is_mine: Callable[[TopicPartition], bool], entries: Iterable[TopicPartition]
    ) -> None:
        before = self.partitions(name)
        after = {each for each in before if not is_mine(each)} | {each for each in entries if is_mine(each)}
        if after != before:
            self.state.write_partitions(name, after)
            self._partitions[name] = after


class NodeLogDirs:
    """`boot_id` changes at every start of the machine; None if it is unknown."""

    def __init__(self, fs: FileSystem, folders: Sequence[str], node_id: int, boot_id: str | None) -> None:
        self._dirs = {folder: _KeptDir(fs, folder) for folder in folders}
        self._node_id = node_id
        self._boot_id = boot_id
        self._recovered: set[tuple[str, int]] = set()
        self._closed: dict[tuple[str, int], int] = {}
        self._ids: dict[TopicPartition, Uuid | None] = {}
        """Topic ids that the entries belong to: those of the last holds."""

    def lock(self) -> None:
        """Raise FolderInUseError if another process uses a dir, or OSError if all disks fail."""
        for each in self._dirs.values():
            try:
                each.state.lock()
            except OSError as error:
                self._failed(each, error)
        if not self._online():
            raise next(each.error for each in self._dirs.values() if each.error)

    def _online(self) -> list[_KeptDir]:
        return [each for each in self._dirs.values() if each.error is None]

    def _failed(self, kept: _KeptDir, error: OSError) -> None:
        kept.error = error
        logger.error("%s", LogDirError(kept.folder, error))

    def open(self) -> None:
        """Find out how the node stopped, and note that it runs."""
        for each in self._online():
            try:
                each.stop = each.state.last_shutdown(self._boot_id)
                # After a crash the boot id is written when every process has reported its loss.
                each.state.opened(None if each.stop is ShutdownKind.CRASHED else self._boot_id)
            except OSError as error:
                self._failed(each, error)

    @property
    def node_stop(self) -> ShutdownKind:
        """Kind of the node's last shutdown; the worst if its dirs differ."""
        return max((each.stop for each in self._dirs.values()), key=list(ShutdownKind).index)

    def process_starts(self, k: int) -> None:
        """A process is started, perhaps again: its earlier close does not count any more."""
        self._closed = {key: epoch for key, epoch in self._closed.items() if key[1] != k}

    def granted(self, holds: Sequence[HeldPartition]) -> set[TopicPartition]:
        """Remove what was noted of deleted topics: a log of the same name would inherit it, and look damaged.

        Return the partitions for which the disk has no room now: they must not be opened."""
        outdated = {
            each.partition for each in holds if self._ids.get(each.partition, each.topic_id) != each.topic_id
        }
        withheld = outdated if outdated and not self._drop(outdated) else set()
        self._ids |= {each.partition: each.topic_id for each in holds if each.partition not in withheld}
        return withheld

    def _drop(self, partitions: set[TopicPartition]) -> bool:
        """False if a disk is full. One that has failed is not used again before the node is restarted."""
        is_complete = True
        for kept in self._online():
            try:
                kept.drop(partitions)
            except OSError as error:
                if error.errno not in DISK_FULL:
                    self._failed(kept, error)
                    continue
                is_complete = False
                logger.warning("cannot note deletions, will retry: %s", DiskFull(kept.folder, error))
        return is_complete

    def close(self, processes: int) -> None:
        """Mark the dirs that all processes have closed in order, and unlock all."""
        for folder, each in self._dirs.items():
            epochs = [self._closed[folder, k] for k in range(processes) if (folder, k) in self._closed]
            if len(epochs) == processes and each.error is None:
                try:
                    each.state.closed(epochs[0], ())
                except OSError as error:
                    logger.error("no clean shutdown marker in %s: %s", folder, error)
            each.state.unlock()

    # -- questions of the processes -----------------------------------------------------------------

    def answer(
        self, state: HubState, session: int, k: int, processes: int, question: AboutLogDir
    ) -> LogDirAnswer:
        """Answer a process, by its session and its number in the node."""
        try:
            return self._answer(state, session, k, processes, question)
        except OSError as error:
            return LogDirAnswer(errno=error.errno or 5, reason=error.strerror or str(error))
        except KafkaError as error:
            return LogDirAnswer(code=error.code, reason=error.message)

    def _answer(
        self, state: HubState, session: int, k: int, processes: int, question: AboutLogDir
    ) -> LogDirAnswer:
        kept = self._dirs[question.folder]
        if kept.error is not None and not isinstance(question, ReadIdentity):
            raise kept.error
        match question:
            case ReadIdentity():
                return LogDirAnswer(identity=None if kept.error else kept.state.identity())
            case ClaimDir(cluster_id=cluster_id):
                return LogDirAnswer(identity=kept.state.claim(cluster_id, self._node_id))
            case ReadShutdown():
                return LogDirAnswer(stop=self._stop_of(kept, k).value)
            case LossReported():
                state.has_recovered(session)
                self._loss_reported(kept, k, processes)
            case DirClosed(broker_epoch=epoch, partitions=partitions):
                state.close_in_order(session, partitions)
                self._closed[kept.folder, k] = epoch
            case WriteOffsets(name=name, offsets=offsets, removed=removed):
                sent = {TopicPartition(topic, index): offset for topic, index, offset in offsets}
                state.note(session, [*sent, *removed])
                kept.replace_offsets(name, lambda each: state.may_replace(session, each), sent)
            case _:
                return _lists(kept, question, lambda each: state.is_held_by(session, each))
        return LogDirAnswer()

    def _stop_of(self, kept: _KeptDir, k: int) -> ShutdownKind:
        """Kind of the last shutdown, for the report of a starting process. What each partition needs is in its hold."""
        if (kept.folder, k) in self._recovered:
            return ShutdownKind.KILLED
        return kept.stop

    def _loss_reported(self, kept: _KeptDir, k: int, processes: int) -> None:
        self._recovered.add((kept.folder, k))
        all_have = all((kept.folder, each) in self._recovered for each in range(processes))
        if all_have and self._boot_id is not None:
            kept.state.write_boot_id(self._boot_id)


def _lists(
    kept: _KeptDir,
    question: ReadOffsets | ReadPartitions | WritePartitions,
    is_mine: Callable[[TopicPartition], bool],
) -> LogDirAnswer:
    match question:
        case ReadOffsets(name=name):
            entries = kept.offsets(name).items()
            return LogDirAnswer(offsets=[(topic, index, offset) for (topic, index), offset in entries])
        case ReadPartitions(name=name):
            return LogDirAnswer(partitions=list(kept.partitions(name)))
        case WritePartitions(name=name, partitions=partitions):
            kept.replace_partitions(name, is_mine, partitions)
    return LogDirAnswer()
