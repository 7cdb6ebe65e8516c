"""Input of a copier: the next sealed segment above the tiered end, with the metadata that readers need.

`next_to_copy` chooses the segment, on the event loop and without I/O. `SegmentToCopy.read` reads it, in a thread.
Nothing above min(high watermark, decided offset, recovery point) is copied: it could be truncated, lost on this
replica, or belong to an undecided transaction.

An object starts exactly where the previous one ended. If an earlier leader had other segment boundaries, the first
batches of a segment are left out, and the indexes are rebuilt for the remaining ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

import msgspec

from barnabas.common.files import FileSlice, FileSystem
from barnabas.log import names
from barnabas.log.producers import ProducerStates
from barnabas.log.recovery.snapshots import (
    ProducerSnapshotError,
    SnapshotFiles,
    decode_snapshot,
    encode_snapshot,
)
from barnabas.log.rolling_log import RollingLog
from barnabas.log.segments.aborted_index import AbortedIndex, AbortedTransaction
from barnabas.log.segments.indexes import OffsetIndex, TimeIndex
from barnabas.log.segments.scan import SCAN_CHUNK, walk_headers
from barnabas.log.segments.segment import Segment
from barnabas.log.tiering.checkpoint import epochs_below
from barnabas.log.tiering.retention import above_tiered_end, copies, expired_upto, may_be_copied
from barnabas.log.truncation import rebuild_producers
from barnabas.records.batch import NO_TIMESTAMP

# -- A sealed segment with its metadata ----------------------------------------------------------------


class OpenTransaction(msgspec.Struct, frozen=True, array_like=True):
    """A transaction with records below the end of a segment and its marker above; also in the object's footer."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    committed: bool | None  # None: undecided when the segment was copied


class SealedSegment(NamedTuple):
    """The batches of [base, end), with indexes and state."""

    base: int
    end: int
    data: FileSlice  # complete batches; the file stays open while the slice exists
    largest_timestamp: int
    offset_index: bytes  # Kafka's .index, relative to `base` and to the start of `data`
    time_index: bytes  # Kafka's .timeindex, relative to `base`
    aborted: bytes  # Kafka's .txnindex: all aborted transactions that overlap [base, end)
    producers: bytes  # Kafka's .snapshot at `end`
    epochs: tuple[tuple[int, int], ...]  # from the log start to `end`
    open_transactions: tuple[OpenTransaction, ...] = ()


class CopiedLog(Protocol):
    """Interface of a log to its copier."""

    def next_to_copy(self, now_ms: int) -> SegmentToCopy | None:
        """Return the next segment, on the event loop; None if all sealed and committed segments are copied."""
        ...

    def note_tiered(self, end: int) -> None:
        """Raise the tiered end."""
        ...


def next_to_copy(log: RollingLog, now_ms: int) -> SegmentToCopy | None:
    """See `CopiedLog`. Expired segments and those within the copy lag are not copied."""
    offsets = log.offsets
    base = max(offsets.tiered_end, offsets.local_start)
    segments = log.segments.since(base)
    if len(segments) < 2 or not copies(log.config):
        return None
    end = segments[1].base_offset
    if end > log.decided_offset or end <= base:
        return None
    if not may_be_copied(log, segments, now_ms):
        return None
    if end > offsets.recovery_point:
        log.want_flush()  # a segment rolled before the last start is not flushed otherwise
        return None
    if log.config.deletes and expired_upto(log, now_ms) > base:
        return None
    epochs = epochs_below(log.epochs.entries, end)
    return SegmentToCopy(log.fs, log.folder, tuple(segments), base, end, epochs, log.generation)


def uncopied_sizes(log: RollingLog) -> list[int]:
    """Sizes of the sealed segments that are not copied completely."""
    segments = log.segments.since(max(log.offsets.tiered_end, log.offsets.local_start))
    return [segment.size for segment in segments[:-1]]


def replica_bytes(log: RollingLog) -> int:
    """Bytes that a new replica fetches from this one: those above the tiered end."""
    if not log.is_tiered:
        return log.size_bytes
    return sum(size for _, size in above_tiered_end(log))


class SegmentToCopy(NamedTuple):
    """A segment to read. Invalid if the log's `generation` has changed: it was truncated meanwhile."""

    fs: FileSystem
    folder: str
    segments: tuple[
        Segment, ...
    ]  # the one to copy, and later ones, which may have markers of its transactions
    base: int
    end: int
    epochs: tuple[tuple[int, int], ...]
    generation: int

    def read(self) -> SealedSegment:
        """Read the segment, in any thread. Raise OSError or BadBatch if it cannot be read."""
        segment = self.segments[0]
        start, offset_index, time_index, largest = _part_of(segment, self.base)
        aborted = _aborted(self.segments, self.base, self.end)
        producers = self._producers()
        return SealedSegment(
            self.base,
            self.end,
            FileSlice(segment.file, start, segment.size - start),
            largest,
            offset_index,
            time_index,
            AbortedIndex(aborted).to_bytes(),
            producers,
            self.epochs,
            _open_at_end(producers, aborted),
        )

    def _producers(self) -> bytes:
        """Return the producer snapshot at the segment's end; rebuild it from batches if it is missing or invalid."""
        path = names.path_of(self.folder, self.end, names.PRODUCER_SNAPSHOT)
        try:
            data = self.fs.read_bytes(path)
            decode_snapshot(data, 0)
        except (FileNotFoundError, ProducerSnapshotError):
            states = ProducerStates()
            offset = self.segments[0].base_offset
            snapshots = SnapshotFiles(self.fs, self.folder, [offset] if self._has_snapshot(offset) else ())
            rebuild_producers(states, snapshots, self.segments, self.end)
            return encode_snapshot(states)
        return data

    def _has_snapshot(self, offset: int) -> bool:
        return self.fs.exists(names.path_of(self.folder, offset, names.PRODUCER_SNAPSHOT))


def _part_of(segment: Segment, base: int) -> tuple[int, bytes, bytes, int]:
    """(position of the first batch, offset index, time index, largest timestamp) from `base` on."""
    if base == segment.base_offset:
        offsets, times = segment.offset_index, segment.time_index
        return 0, offsets.to_bytes(), times.to_bytes(), segment.largest_timestamp[0]
    first = segment.locate(base)
    assert first is not None, f"{segment} has no batch from offset {base} on"
    return first[0], *_indexes_from(segment, first[0], base)


def _indexes_from(segment: Segment, start: int, base: int, interval: int = 4096) -> tuple[bytes, bytes, int]:
    """Build the indexes of a segment with base offset `base` whose data start at position `start` of this one."""
    offsets, times, unindexed = OffsetIndex(), TimeIndex(), 0
    largest, at = NO_TIMESTAMP, base
    for position, header in walk_headers(segment.file, start, segment.size, SCAN_CHUNK):
        if header.max_timestamp > largest:
            largest, at = header.max_timestamp, header.last_offset
        if unindexed > interval:
            offsets.append(header.last_offset - base, position - start)
            times.append(largest, at - base)
            unindexed = 0
        unindexed += header.size
    if largest != NO_TIMESTAMP:
        times.append(largest, at - base)
    return offsets.to_bytes(), times.to_bytes(), largest


def _aborted(segments: Sequence[Segment], base: int, end: int) -> list[AbortedTransaction]:
    """Aborted transactions that overlap [base, end). All their markers exist: `end` is below the last stable offset."""
    aborted: list[AbortedTransaction] = []
    for segment in segments:
        index = segment.aborted
        aborted += [entry for entry in index if entry.last_offset >= base and entry.first_offset < end]
        if index.is_last_needed_for(end):
            break
    return aborted


def _open_at_end(producers: bytes, aborted: list[AbortedTransaction]) -> tuple[OpenTransaction, ...]:
    """Transactions that are open at the segment's end. All are decided, so those not aborted are committed."""
    ended = {(entry.producer_id, entry.first_offset) for entry in aborted}
    return tuple(
        OpenTransaction(p.producer_id, p.epoch, first, (p.producer_id, first) not in ended)
        for p in decode_snapshot(producers, 0)
        if (first := p.transaction_start) is not None
    )


# -- Compacted logs: copied completely, while all segments stay on the local disk ----------------------


class CompactedSegment(NamedTuple):
    """A sealed segment and the offsets it covers. A compaction replaces it by a different object."""

    segment: Segment
    base: int
    end: int


def stays_whole(log: RollingLog) -> bool:
    """True if the log is copied completely; not possible once local segments were removed."""
    return log.config.remote_storage_enable and log.config.compacted and not log.is_tiered


def whole_parts(log: RollingLog) -> tuple[CompactedSegment, ...]:
    """See `CompactedLog.parts`. The offsets of a segment that compaction has emptied are covered by its neighbour."""
    limit = min(log.decided_offset, log.offsets.recovery_point)
    segments = log.segments.since(log.offsets.start)
    parts: list[CompactedSegment] = []
    base = segments[0].base_offset
    for segment, following in pairwise(segments):
        end = following.base_offset
        if end > limit:
            break
        if segment.size:
            parts.append(CompactedSegment(segment, base, end))
            base = end
        elif parts:
            parts[-1] = parts[-1]._replace(end=end)
            base = end
    return tuple(parts)


def to_copy(log: RollingLog, part: CompactedSegment) -> SegmentToCopy | None:
    """Return the segment, to be read in a thread; None if the log no longer has it."""
    segments = log.segments.since(part.segment.base_offset)
    if segments[0] is not part.segment:
        return None
    epochs = epochs_below(log.epochs.entries, part.end)
    return SegmentToCopy(log.fs, log.folder, tuple(segments), part.base, part.end, epochs, log.generation)


def still_exists(log: RollingLog, copied: SegmentToCopy) -> bool:
    """True if the log still has the segments that were read. File names do not show it: compaction reuses them."""
    current = set(log.segments)
    return copied.generation == log.generation and all(segment in current for segment in copied.segments)
