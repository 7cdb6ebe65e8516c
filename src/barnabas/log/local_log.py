"""The local part of a log (Kafka's LocalLog), for reads: by offset, by timestamp, committed.

Methods that change a log are in log/rolling_log.py, log/durable_log.py and log/log.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from operator import itemgetter
from typing import NamedTuple, TypeVar

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import EMPTY, File, FileSlice, FileSystem, Slice
from barnabas.common.types import TopicPartition
from barnabas.log.dirs.disk_health import DiskHealth
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.failures import DISK_FULL, DamagedLog, DiskFull, LogDirError
from barnabas.log.offsets import NOTHING_TIERED, Offsets
from barnabas.log.producers import ProducerStates
from barnabas.log.reader import (
    MAX_LISTED,
    SHORT_SLICE,
    FoundRecord,
    aborted_between,
    aborted_in,
    first_at_or_after,
    latest,
    position_in,
)
from barnabas.log.recovery.snapshots import SnapshotFiles
from barnabas.log.segments.scan import BadBatch
from barnabas.log.segments.segment import Segment
from barnabas.log.segments.segment_list import Segments, number_in
from barnabas.log.tiering.checkpoint import TieredPart

# -- State of a log ------------------------------------------------------------------------------------


class Unsynced:
    """Folders, and files other than the `.log` files, that the next flush has to sync.

    A crash may undo these changes: the indexes of a sealed segment, the name of a new one, the removal of an old one.
    The recovery point must not pass them before they are synced.
    """

    __slots__ = ("files", "folders")

    def __init__(self, folders: Iterable[str] = (), files: Iterable[str] = ()) -> None:
        self.folders = dict.fromkeys(folders)
        self.files = list(files)

    def add(self, folder: str, files: Iterable[str] = ()) -> None:
        self.folders[folder] = None
        self.files += files

    def take(self) -> tuple[list[str], list[str]]:
        """Return and clear (files, folders), which the caller syncs."""
        files, folders = self.files, list(self.folders)
        self.files, self.folders = [], {}
        return files, folders


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


# -- Reads ---------------------------------------------------------------------------------------------

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
        disk: DiskHealth,
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

    def read(self, offset: int, max_bytes: int, upper_offset: int, at_least_one: bool = True) -> Slice:
        """Return batches from the one that contains `offset` on, below `upper_offset`, as a slice of one segment.

        The slice has at most `max_bytes`, except that the first batch is complete if `at_least_one`; the last one may
        be truncated. Raise OFFSET_OUT_OF_RANGE outside of [log start, log end], OFFSET_MOVED_TO_TIERED_STORAGE below
        the local start. Reads at the tail need no index lookup.
        """
        offsets = self.offsets
        segments = self.segments
        if offset > offsets.end or offset < offsets.local_start:
            raise self.out_of_range(offset)
        written = offsets.written
        if upper_offset > written:
            upper_offset = written
        if offset >= upper_offset:
            return EMPTY
        if offset >= segments.tail.start:
            segment = segments.active
            position, size = segments.tail.find(offset, segment.size)
        else:
            batch = self._locate(offset)
            if batch is None:
                return EMPTY
            segment, position, size = batch
        end = segment.size if upper_offset == written else self._end_position(segment, upper_offset)
        length = end - position
        if length > max_bytes:
            length = max(max_bytes, size) if at_least_one else (max_bytes if size <= max_bytes else 0)
        return FileSlice(segment.file, position, length) if length > 0 else EMPTY

    def _locate(self, offset: int) -> tuple[Segment, int, int] | None:
        """Segment, position and size of the first batch that ends at `offset` or later."""
        with self.storage_errors():
            for segment in self.segments.since(offset):
                batch = segment.locate(offset)
                if batch is not None:
                    position, header = batch
                    return segment, position, header.size
        return None

    def _end_position(self, segment: Segment, upper_offset: int) -> int:
        """Position of the first batch that must not be read."""
        segments = self.segments
        if segment is segments.active and upper_offset >= segments.tail.start:
            return segments.tail.find(upper_offset, segment.size)[0]
        with self.storage_errors():
            batch = segment.locate(upper_offset)
        return batch[0] if batch is not None else segment.size

    def out_of_range(self, offset: int) -> KafkaError:
        if self.offsets.start <= offset < self.offsets.local_start:
            return KafkaError(
                ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
                f"offset {offset} of {self.topic_partition} is in a remote segment: the local log starts at "
                f"{self.offsets.local_start}",
            )
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} of {self.topic_partition} is not in {self.offsets.start} to {self.offsets.end}",
        )

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
        """Like `read`, below the last stable offset, with (producer id, first offset) of the aborted transactions in
        the slice, by first offset."""
        upper_offset = self.last_stable_offset
        data = self.read(offset, max_bytes, upper_offset, at_least_one)
        if not isinstance(data, FileSlice) or (
            offset >= self.segments.tail.start and self.segments.active.aborts_nothing
        ):
            return data, []
        with self.storage_errors():
            aborted = list(islice(self._aborted(offset, upper_offset), MAX_LISTED + 1))
            if len(aborted) > MAX_LISTED:
                data = self.read(offset, min(max_bytes, SHORT_SLICE), upper_offset, at_least_one)
                aborted = aborted_in(self._aborted, offset, data) if isinstance(data, FileSlice) else []
        aborted.sort(key=itemgetter(1))
        return data, aborted

    def _aborted(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        return aborted_between(self.segments.since(start), start, end)

    def aborted_transactions(self, start: int, end: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions in [start, end), by first offset.

        Raise OFFSET_MOVED_TO_TIERED_STORAGE below the local start.
        """
        if self.offsets.start <= start < self.offsets.local_start:
            raise self.out_of_range(start)
        with self.storage_errors():
            return sorted(self._aborted(start, end), key=itemgetter(1))

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
