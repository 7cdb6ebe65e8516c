"""The part of a log that is on this disk, for reading: by offset, by time, and what is committed.

Kafka's LocalLog. What changes a log is in log/log.py.
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
from barnabas.log.reading import (
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

# -- What a log is made of -----------------------------------------------------------------------------


class LogState(NamedTuple):
    """What a log consists of when it starts to work: fresh, or as recovery found it."""

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
    """Nobody but the log itself assigns to its attributes."""

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
        """Is there no record, neither here nor in remote segments?"""
        return self.offsets.start == self.offsets.end

    @property
    def local_start_offset(self) -> int:
        return self.offsets.local_start

    @property
    def remote_part(self) -> tuple[int, int] | None:
        """[log start, local start), if that is not empty: what only remote segments hold. By time, and for the largest
        timestamp, a reader asks those first: the searches of this class see the rest."""
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
        """No transaction below it is undecided, not even one below the log start, which a crash may lower again.
        Records are compacted and copied up to here."""
        first_open = next(iter(self.producers.undecided.values()), self.offsets.high_watermark)
        return min(first_open, self.last_stable_offset)

    @property
    def active(self) -> Segment:
        return self.segments.active

    @property
    def size_bytes(self) -> int:
        """Of the segments on this disk."""
        return self.segments.size

    # -- reading ------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, upper_offset: int, *, at_least_one: bool = True) -> Slice:
        """The bytes from the batch that holds `offset` on, below `upper_offset`, from one segment.

        At most `max_bytes`, except that the first batch is whole if `at_least_one`. The last one may be cut.
        OFFSET_OUT_OF_RANGE outside of [log start, log end], RemoteOffset below the local start; nothing at
        `upper_offset` and above.
        """
        return read_slice(self, offset, max_bytes, upper_offset, at_least_one)

    def disk_position(self, offset: int) -> tuple[File, int] | None:
        """Where a read at `offset` starts to look; None at the tail, which was written a moment ago."""
        if offset >= self.segments.tail.start:
            return None
        return self._look_up(lambda segments: position_in(segments, offset))

    def index_is_loaded(self, offset: int) -> bool:
        """Would a read at `offset` find its index in memory?"""
        segments = self.segments
        return offset >= segments.tail.start or segments[segments.number_of(offset)].is_loaded

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetForLeaderEpoch answers; (-1, -1) when the epoch is unknown."""
        return self.epochs.end_offset(epoch, self.offsets.end)

    def offset_for_timestamp(self, timestamp: int) -> FoundRecord | None:
        """(offset, timestamp, leader epoch) of the first record on this disk as late as `timestamp`. An earlier one may
        be in the `remote_part`."""
        return self._look_up(
            lambda segments: first_at_or_after(segments, timestamp, self.offsets.local_start)
        )

    def max_timestamp_offset(self) -> FoundRecord | None:
        """(offset, timestamp, leader epoch) of the first record with the largest timestamp on this disk. A
        larger one may be in the `remote_part`."""
        return self._look_up(lambda segments: latest(segments, self.offsets.local_start))

    def _look_up(self, search: Callable[[list[Segment]], T]) -> T:
        """Search in any thread; once more when a segment was removed or replaced meanwhile."""
        with self.storage_errors():
            try:
                return search(list(self.segments))
            except FileNotFoundError:
                return search(list(self.segments))

    def read_committed(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True
    ) -> tuple[Slice, list[tuple[int, int]]]:
        """As `read`, below the last stable offset, with what `aborted_transactions` says of the slice."""
        return read_committed(self, offset, max_bytes, self.last_stable_offset, at_least_one)

    def aborted_transactions(self, start: int, end: int) -> list[tuple[int, int]]:
        """(producer id, first offset), by first offset: what a reader of committed data in [start, end) skips.
        RemoteOffset below the local start."""
        if self.offsets.start <= start < self.offsets.local_start:
            raise out_of_range(self, start)
        with self.storage_errors():
            found = aborted_between(self.segments.since(start), start, end)
            return sorted(found, key=itemgetter(1))

    def load_aborted(self, offset: int) -> None:
        """Read what `read_committed` will search, in any thread: a file may have a million entries."""

        def load(segments: list[Segment]) -> None:
            number = number_in(segments, offset)
            for segment in segments[
                number : number + 2
            ]:  # most transactions end in the segment they began in
                _ = segment.aborted

        self._look_up(load)

    # -- errors -------------------------------------------------------------------------------------

    @contextmanager
    def storage_errors(self, harmless: frozenset[int] | tuple[()] = DISK_FULL) -> Iterator[None]:
        """Turn what the disk says into errors of ours."""
        try:
            yield
        except BadBatch as damage:
            raise DamagedLog(self.folder, str(damage)) from damage
        except OSError as error:
            raise self.failed(error, harmless) from error

    def failed(self, cause: OSError, harmless: frozenset[int] | tuple[()] = DISK_FULL) -> KafkaError:
        """The error to raise for a failed call; one that ends the log dir is refused to all its logs."""
        if cause.errno in harmless:
            return DiskFull(self.folder, cause)
        error = LogDirError(self.folder, cause)
        self.disk.fail(error)
        return error

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, {self.offsets.start}..{self.offsets.end})"
