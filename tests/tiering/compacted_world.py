"""A compacted partition and its leaders: their writes to a store, and its invariants."""

from collections.abc import Iterable
from typing import Any

from barnabas.log.tiering.copying import CompactedSegment, SealedSegment
from barnabas.records.batch import iterate_headers
from barnabas.records.builder import build_batch
from barnabas.records.record import Record, iterate_records
from barnabas.tiering.objects.segment_build import at_once
from barnabas.tiering.objects.segment_object import read_chunk, read_footer
from barnabas.tiering.stores.store import ObjectStore
from barnabas.tiering.writing.claim import LogView, claim_manifest
from barnabas.tiering.writing.compacted_copier import CompactedLogCopier
from barnabas.tiering.writing.expiration import expire, sweep
from barnabas.tiering.writing.pacing import UploadLimiter, nowhere
from tests.support.builders.segments import FOLDER, NOW, sealed
from tests.tiering import partition_world
from tests.tiering.memory_store import MemoryStore
from tests.tiering.partition_world import Action, At, entries_in, manifest_in

KEYS = 5
"""Of record n the key is n modulo 5; every third record is a tombstone."""


def record_at(offset: int) -> tuple[bytes, bytes | None]:
    return b"%d" % (offset % KEYS), None if offset % 3 == 2 else b"%d" % offset


def state_at(end: int) -> dict[bytes | None, bytes]:
    """State of a reader of all records below `end`."""
    return fold(record_at(offset) for offset in range(end))


def fold(records: Iterable[tuple[bytes | None, bytes | None]]) -> dict[bytes | None, bytes]:
    state: dict[bytes | None, bytes] = {}
    for key, value in records:
        state.pop(key, None) if value is None else state.update({key: value})
    return state


class Segment:
    """Offsets of the records that are left in it."""

    def __init__(self, offsets: list[int]) -> None:
        self.offsets = offsets


class Replica:
    """A log with all that is committed. `end` is where it ends; segments are sealed by `roll`."""

    def __init__(self, stride: int) -> None:
        self.stride = stride
        self.sealed: list[tuple[Segment, int]] = []  # with their ends
        self.end = 0
        self.inherited = 0
        self.kept: list[int] = []
        """Of a follower: what it got of its first offsets, which end at `inherited`."""

    def again(self) -> "Replica":
        """The same after a restart."""
        copied = Replica(self.stride)
        copied.sealed = [(Segment(list(segment.offsets)), end) for segment, end in self.sealed]
        copied.end, copied.inherited, copied.kept = self.end, self.inherited, self.kept
        return copied

    def follower(self, stride: int) -> "Replica":
        """It has fetched the compacted records, in different segments."""
        left = [offset for segment, _ in self.sealed for offset in segment.offsets]
        left += range(self.sealed_end, self.end)
        copied = Replica(stride)
        copied.inherited, copied.kept = self.end, left
        copied.append(self.end)
        return copied

    @property
    def sealed_end(self) -> int:
        return self.sealed[-1][1] if self.sealed else 0

    def append(self, count: int) -> None:
        self.end += count
        while self.end - self.sealed_end >= self.stride:
            self._seal(self.sealed_end + self.stride)

    def roll(self) -> None:
        if self.end > self.sealed_end:
            self._seal(self.end)

    def _seal(self, end: int) -> None:
        offsets = range(self.sealed_end, end)
        removed = set(range(self.inherited)) - set(self.kept)
        self.sealed.append((Segment([offset for offset in offsets if offset not in removed]), end))

    def compact(self) -> None:
        """Tombstones go at once, too (delete.retention.ms=0), the last record stays; neighbours are merged."""
        upper = self.sealed_end
        latest = {record_at(offset)[0]: offset for offset in range(upper)}
        wanted = {offset for offset in latest.values() if record_at(offset)[1] is not None} | {upper - 1}
        cleaned = []
        for number in range(0, len(self.sealed), 2):
            group = self.sealed[number : number + 2]
            left = [offset for segment, _ in group for offset in segment.offsets if offset in wanted]
            cleaned.append((Segment(left), group[-1][1]))
        self.sealed = cleaned

    # -- as copiers see it ------------------------------------------------------------------------------

    def view(self) -> LogView:
        return LogView(0, 0, self.end, ((0, 0),))

    def parts(self) -> tuple[CompactedSegment, ...]:
        parts, base = [], 0
        for segment, end in self.sealed:
            if segment.offsets:
                parts.append(CompactedSegment(segment, base, end))  # type: ignore[arg-type]
                base = end
            elif parts:
                parts[-1] = parts[-1]._replace(end=end)
                base = end
        return tuple(parts)

    async def read(self, part: CompactedSegment) -> SealedSegment | None:
        if part not in self.parts():
            return None
        segment: Any = part.segment
        data = b"".join(
            build_batch([Record(0, NOW + offset, *record_at(offset))], base_offset=offset)
            for offset in segment.offsets
        )
        return sealed(part.base, part.end, data)


class Leader(partition_world.Leader):
    """Leader of a compacted log, which it copies completely."""

    replica: Replica  # type: ignore[assignment]

    def __init__(self, store: ObjectStore, replica: Replica, epoch: int, at: At = nowhere) -> None:
        super().__init__(store, replica, epoch, at)  # type: ignore[arg-type]
        self.uploads = 0

    async def claim(self) -> None:
        view = self.replica.view()
        claim = await claim_manifest(self.store, FOLDER, self.writer, view, NOW, compacted=True)
        self.file = claim.file
        nonces = (f"{number:08x}" for number in range(1 << 30))
        self.copier = CompactedLogCopier(
            self.store, self.file, self.replica, UploadLimiter(lambda: 0.0, 1e15), at_once, lambda: NOW,
            self.inherited(view),
            at=self.at, new_nonce=lambda: next(nonces),
        )  # fmt: skip

    def inherited(self, view: LogView) -> int:
        return view.end

    async def sweep(self) -> None:
        await sweep(self.store, self.file, everywhere=True)

    async def copy(self) -> None:
        """All there is."""
        while await self.copier.copy_next():
            self.uploads += 1

    async def collect(self) -> None:
        """Delete replaced objects without a delay."""
        await expire(self.store, self.file, 0, NOW, 0, self.at)

    async def compact(self) -> None:
        self.replica.compact()

    async def roll(self) -> None:
        self.replica.roll()

    def append(self, count: int) -> Action:
        async def appended() -> None:
            self.replica.append(count)

        return appended


# -- what must be true --------------------------------------------------------------------------------


async def check_state(store: MemoryStore) -> None:
    """A reader of all listed objects has the log's last value of every key below the tiered end."""
    store = store.copy()
    records: list[Record] = []
    end = 0
    manifest = manifest_in(store)
    for entry in entries_in(store, manifest):
        assert entry.base == end, "a gap or an overlap"
        end = entry.end
        key = FOLDER.key(entry.key)
        footer = await read_footer(store, key, entry)
        for number in range(len(footer.chunks)):
            chunk = await read_chunk(store, key, footer, number)
            for position, header in iterate_headers(chunk):
                assert entry.base <= header.base_offset < entry.end
                records += iterate_records(chunk[position : position + header.size], header)
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    assert fold((record.key, record.value) for record in records) == state_at(manifest.tiered_end)
