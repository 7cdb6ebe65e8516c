"""What a copier needs of a log: the next sealed segment from the tiered end on, and all that a reader must know of it.

In two steps. `next_to_copy` is taken on the loop and only looks: it chooses. `SegmentToCopy.read` runs in a thread and
asks the disk. Nothing above min(high watermark, decided offset, recovery point) is given away: it could be cut, or
be lost here, or belong to a transaction whose end is unknown.

An object starts exactly where the last one ended. If an earlier leader had other boundaries, the first batches of a
segment are left out, and the indexes are rebuilt for what remains.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from barnabas.common.files import FileSlice, FileSystem
from barnabas.log import names
from barnabas.log.producers import ProducerStates
from barnabas.log.recovery.snapshots import SnapshotError, SnapshotFiles, decode_snapshot, encode_snapshot
from barnabas.log.segments.aborted_index import AbortedIndex, AbortedTransaction
from barnabas.log.segments.indexes import OffsetIndex, TimeIndex
from barnabas.log.segments.scan import SCAN_CHUNK, walk_headers
from barnabas.log.segments.segment import Segment
from barnabas.log.tiering.checkpoint import epochs_below
from barnabas.log.tiering.retention import above_tiered_end, copies, expired_upto
from barnabas.log.truncation import rebuild_producers
from barnabas.records.batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from barnabas.log.durable_log import DurableLog


# -- What a log gives to be copied to an object store: a sealed segment, and all that a reader must know of it


class OpenTransaction(msgspec.Struct, frozen=True, array_like=True):
    """A transaction with a part below the end of a segment, whose marker lies at or above it. In the footer of the
    segment's object, too."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    committed: bool | None  # None: not decided when the segment was copied


class SealedSegment(NamedTuple):
    """The batches of [base, end), and what is known of them."""

    base: int
    end: int
    data: FileSlice  # whole batches; the file stays open as long as the slice is there
    largest_timestamp: int
    offset_index: bytes  # Kafka's .index, relative to `base` and to the start of `data`
    time_index: bytes  # Kafka's .timeindex, relative to `base`
    aborted: bytes  # Kafka's .txnindex: all aborted transactions with a part in [base, end)
    producers: bytes  # Kafka's .snapshot at `end`
    epochs: tuple[tuple[int, int], ...]  # from the log start to `end`
    open_transactions: tuple[OpenTransaction, ...] = ()


class CopiedLog(Protocol):
    """A log, as its copier sees it."""

    def next_to_copy(self, now_ms: int) -> SegmentToCopy | None:
        """On the loop. None: nothing is sealed and committed that is not copied yet."""
        ...

    def note_tiered(self, end: int) -> None:
        """Everything below `end` is in remote segments."""
        ...


def next_to_copy(log: DurableLog, now_ms: int) -> SegmentToCopy | None:
    """See `CopiedLog`. What total retention is about to remove is not worth a copy."""
    offsets = log.offsets
    base = max(offsets.tiered_end, offsets.local_start)
    segments = log.segments.since(base)
    if len(segments) < 2 or not copies(log.config):
        return None
    end = segments[1].base_offset
    if end > log.decided_offset or end <= base:
        return None
    if end > offsets.recovery_point:
        log.want_flush()  # sealed before the last start: nobody else would ask for that
        return None
    if log.config.deletes and expired_upto(log, now_ms) > base:
        return None
    epochs = epochs_below(log.epochs.entries, end)
    return SegmentToCopy(log.fs, log.folder, tuple(segments), base, end, epochs, log.generation)


def uncopied_sizes(log: DurableLog) -> list[int]:
    """Bytes of each sealed segment that has something above the tiered end."""
    segments = log.segments.since(max(log.offsets.tiered_end, log.offsets.local_start))
    return [segment.size for segment in segments[:-1]]


def replica_bytes(log: DurableLog) -> int:
    """What a new replica copies from this disk: it begins at the tiered end."""
    if not log.is_tiered:
        return log.size_bytes
    return sum(size for _, size in above_tiered_end(log))


class SegmentToCopy(NamedTuple):
    """Chosen, not read. Void once the log's `generation` is another one: it was cut meanwhile."""

    fs: FileSystem
    folder: str
    segments: tuple[Segment, ...]  # the one to copy, and those after it, where transactions end
    base: int
    end: int
    epochs: tuple[tuple[int, int], ...]
    generation: int

    def read(self) -> SealedSegment:
        """In any thread. OSError, or BadBatch, when the disk does not give it."""
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
        """The snapshot that was taken when the segment was sealed; if it is gone, what the batches say."""
        path = names.path_of(self.folder, self.end, names.PRODUCER_SNAPSHOT)
        try:
            data = self.fs.read_bytes(path)
            decode_snapshot(data, 0)
        except (FileNotFoundError, SnapshotError):
            states = ProducerStates()
            offset = self.segments[0].base_offset
            known = SnapshotFiles(self.fs, self.folder, [offset] if self._has_snapshot(offset) else ())
            rebuild_producers(states, known, self.segments, self.end)
            return encode_snapshot(states)
        return data

    def _has_snapshot(self, offset: int) -> bool:
        return self.fs.exists(names.path_of(self.folder, offset, names.PRODUCER_SNAPSHOT))


def _part_of(segment: Segment, base: int) -> tuple[int, bytes, bytes, int]:
    """(position of the first batch, offset index, time index, largest timestamp) from `base` on."""
    if base == segment.base_offset:
        offsets, times = segment.offset_index, segment.time_index
        return 0, offsets.to_bytes(), times.to_bytes(), segment.largest_timestamp[0]
    found = segment.locate(base)
    assert found is not None, f"{segment} holds nothing from {base} on"
    return found[0], *_indexes_from(segment, found[0], base)


def _indexes_from(segment: Segment, start: int, base: int, interval: int = 4096) -> tuple[bytes, bytes, int]:
    """As an append would have made them in a segment that begins at `base`, at position `start` of this one."""
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
    """Their markers may lie in later segments; all are there, because [base, end) is below the last stable offset."""
    found: list[AbortedTransaction] = []
    for segment in segments:
        index = segment.aborted
        found += [entry for entry in index if entry.last_offset >= base and entry.first_offset < end]
        if index.is_last_needed_for(end):
            break
    return found


def _open_at_end(producers: bytes, aborted: list[AbortedTransaction]) -> tuple[OpenTransaction, ...]:
    """Whatever is not known to be aborted was committed: all of them are decided."""
    ended = {(entry.producer_id, entry.first_offset) for entry in aborted}
    return tuple(
        OpenTransaction(p.producer_id, p.epoch, first, (p.producer_id, first) not in ended)
        for p in decode_snapshot(producers, 0)
        if (first := p.transaction_start) is not None
    )


# -- A compacted log whose copy lies in an object store: it stays on this disk as a whole, and does not know of the copy


class CompactedSegment(NamedTuple):
    """A sealed segment with what it stands for. A compaction puts another one in its place, which is never equal."""

    segment: Segment
    base: int
    end: int


def stays_whole(log: DurableLog) -> bool:
    """Is it copied as a whole? A log that has left this disk in part no longer can be."""
    return log.config.remote_storage_enable and log.config.compacted and not log.is_tiered


def whole_parts(log: DurableLog) -> tuple[CompactedSegment, ...]:
    """See `WholeLog.parts`. Compaction may leave nothing of a segment: its neighbour stands for its offsets, too."""
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


def to_copy(log: DurableLog, part: CompactedSegment) -> SegmentToCopy | None:
    """To be read in a thread; None if the log no longer has it."""
    segments = log.segments.since(part.segment.base_offset)
    if segments[0] is not part.segment:
        return None
    epochs = epochs_below(log.epochs.entries, part.end)
    return SegmentToCopy(log.fs, log.folder, tuple(segments), part.base, part.end, epochs, log.generation)


def is_still_there(log: DurableLog, copied: SegmentToCopy) -> bool:
    """Are the segments that were read still those of the log? A compaction reuses the names of files."""
    now = set(log.segments)
    return copied.generation == log.generation and all(segment in now for segment in copied.segments)
