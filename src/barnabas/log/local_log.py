"""The local part of a log (Kafka's LocalLog), for reads: by offset, by timestamp, committed.

Methods that change a log are in log/durable_log.py and log/log.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from typing import NamedTuple, TypeVar

from barnabas.common.errors import KafkaError
from barnabas.common.files import File, FileSystem, Slice
from barnabas.common.types import TopicPartition
from barnabas.log.dirs.disk import Disk
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.failures import DISK_FULL, DamagedLog, DiskFull, LogDirError
from barnabas.log.flushing import Unsynced
from barnabas.log.offsets import NOTHING_TIERED, Offsets
from barnabas.log.producers import ProducerStates
from barnabas.log.reader import (
    FoundRecord,
    aborted_between,
    first_at_or_after,
    latest,
    out_of_range,
    position_in,
    read_committed,
    read_slice,
)
from barnabas.log.recovery.snapshots import SnapshotFiles
from barnabas.log.segments.scan import BadBatch
from barnabas.log.segments.segment import Segment
from barnabas.log.segments.segment_list import Segments, number_in
from barnabas.log.tiering.checkpoint import TieredPart

# -- State of a log ------------------------------------------------------------------------------------


class LogState(NamedTuple):
    """Initial state of a log: new, or from recovery."""

    segments: list[Segment]
    log_start: int
    log_end: int
    recovery_point: int
    producers: ProducerStates
    epochs: LeaderEpochs
    snapshots: SnapshotFiles
    unsynced: Unsynced
    tiered: TieredPart | None = None

    def offsets(self) -> Offsets:
        local_start = max(self.log_start, self.segments[0].base_offset)
        tiered_end = NOTHING_TIERED if self.tiered is None else self.tiered.end
        return Offsets(self.log_start, self.log_end, self.recovery_point, local_start, tiered_end)


T = TypeVar("T")


class LocalLog:
    """Reads of a log. Only its own methods assign to its attributes."""

    __slots__ = (
        "disk", "epochs", "folder", "fs", "offsets", "producers", "segments", "topic_partition",
    )  # fmt: skip

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        topic_partition: TopicPartition,
        offsets: Offsets,
        segments: Segments,
        producers: ProducerStates,
        epochs: LeaderEpochs,
        disk: Disk,
    ) -> None:
        self.fs = fs
        self.folder = folder
        self.topic_partition = topic_partition
        self.offsets = offsets
        self.segments = segments
        self.producers = producers
        self.epochs = epochs
        self.disk = disk

    # -- offsets ------------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        return self.offsets.start

    @property
    def is_empty(self) -> bool:
        """True if neither local nor remote segments have records."""
        return self.offsets.start == self.offsets.end

    @property
    def local_start_offset(self) -> int:
        return self.offsets.local_start

    @property
    def remote_part(self) -> tuple[int, int] | None:
        """[log start, local start): the range that is only in remote segments; None if empty.

        Searches by timestamp have to check it separately: the methods of this class search the local part only.
        """
        offsets = self.offsets
        return (offsets.start, offsets.local_start) if offsets.start < offsets.local_start else None

    @property
    def log_end_offset(self) -> int:
        return self.offsets.end

    @property
    def high_watermark(self) -> int:
        return self.offsets.high_watermark

    @property
    def recovery_point(self) -> int:
        return self.offsets.recovery_point

    @property
    def flushed_offset(self) -> int:
        return self.offsets.recovery_point

    @property
    def last_stable_offset(self) -> int:
        high_watermark = self.offsets.high_watermark
        if not self.producers.has_transactions:
            return high_watermark
        unstable = self.producers.first_unstable_offset
        return high_watermark if unstable is None else max(min(unstable, high_watermark), self.offsets.start)

    @property
    def decided_offset(self) -> int:
        """Offset below which all transactions are decided, even those below the log start, which a crash may lower.

        Records are compacted and copied up to here.
        """
        first_open = next(iter(self.producers.undecided.values()), self.offsets.high_watermark)
        return min(first_open, self.last_stable_offset)

    @property
    def active(self) -> Segment:
        return self.segments.active

    @property
    def size_bytes(self) -> int:
        """Size of the local segments."""
        return self.segments.size

    # -- reading ------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, upper_offset: int, *, at_least_one: bool = True) -> Slice:
        """Return batches from the one that contains `offset` on, below `upper_offset`, as a slice of one segment.

        The slice has at most `max_bytes`, except that the first batch is complete if `at_least_one`; the last one may
        be truncated. Raise OFFSET_OUT_OF_RANGE outside of [log start, log end], OFFSET_MOVED_TO_TIERED_STORAGE below
        the local start.
        """
        return read_slice(self, offset, max_bytes, upper_offset, at_least_one)

    def disk_position(self, offset: int) -> tuple[File, int] | None:
        """(file, position) where a read at `offset` starts; None at the tail, whose position needs no lookup."""
        if offset >= self.segments.tail.start:
            return None
        return self._look_up(lambda segments: position_in(segments, offset))

    def index_is_loaded(self, offset: int) -> bool:
        """True if a read at `offset` needs no index file."""
        segments = self.segments
        return offset >= segments.tail.start or segments[segments.number_of(offset)].is_loaded

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetForLeaderEpoch returns them; (-1, -1) if the epoch is unknown."""
        return self.epochs.end_offset(epoch, self.offsets.end)

    def offset_for_timestamp(self, timestamp: int) -> FoundRecord | None:
        """First local record with this timestamp or a later one. The `remote_part` may have an earlier record."""
        return self._look_up(
            lambda segments: first_at_or_after(segments, timestamp, self.offsets.local_start)
        )

    def max_timestamp_offset(self) -> FoundRecord | None:
        """First local record with the largest timestamp. The `remote_part` may have a larger one."""
        return self._look_up(lambda segments: latest(segments, self.offsets.local_start))

    def _look_up(self, search: Callable[[list[Segment]], T]) -> T:
        """Search in any thread; search again if a segment was removed or replaced meanwhile."""
        with self.storage_errors():
            try:
                return search(list(self.segments))
            except FileNotFoundError:
                return search(list(self.segments))

    def read_committed(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True
    ) -> tuple[Slice, list[tuple[int, int]]]:
        """Like `read`, below the last stable offset, with the aborted transactions in the slice."""
        return read_committed(self, offset, max_bytes, self.last_stable_offset, at_least_one)

    def aborted_transactions(self, start: int, end: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions in [start, end), by first offset.

        Raise OFFSET_MOVED_TO_TIERED_STORAGE below the local start.
        """
        if self.offsets.start <= start < self.offsets.local_start:
            raise out_of_range(self, start)
        with self.storage_errors():
            aborted = aborted_between(self.segments.since(start), start, end)
            return sorted(aborted, key=itemgetter(1))

    def load_aborted(self, offset: int) -> None:
        """Load the indexes that `read_committed` needs, in any thread: a file may have a million entries."""

        def load(segments: list[Segment]) -> None:
            number = number_in(segments, offset)
            # Most transactions end in the segment in which they started.
            for segment in segments[number : number + 2]:
                _ = segment.aborted

        self._look_up(load)

    # -- errors -------------------------------------------------------------------------------------

    @contextmanager
    def storage_errors(self, harmless: frozenset[int] | tuple[()] = DISK_FULL) -> Iterator[None]:
        """Convert OSError and BadBatch to KafkaErrors."""
        try:
            yield
        except BadBatch as damage:
            raise DamagedLog(self.folder, str(damage)) from damage
        except OSError as error:
            raise self.failed(error, harmless) from error

    def failed(self, cause: OSError, harmless: frozenset[int] | tuple[()] = DISK_FULL) -> KafkaError:
        """Return the error to raise for a failed call; unless it is harmless, mark the disk as failed."""
        if cause.errno in harmless:
            return DiskFull(self.folder, cause)
        error = LogDirError(self.folder, cause)
        self.disk.fail(error)
        return error

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, {self.offsets.start}..{self.offsets.end})"
