"""One partition and its successive leaders: their writes to a store, and its invariants."""

from collections.abc import Awaitable, Callable, Iterator
from copy import copy

from barnabas.log.tiering.copying import SealedSegment
from barnabas.records.batch import iterate_headers
from barnabas.testing.objects import MemoryObjectStore
from barnabas.tiering.objects.layout import parse_object_name
from barnabas.tiering.objects.manifest import (
    Manifest,
    ManifestWriter,
    RemovedKind,
    SegmentEntry,
    decode,
    decode_page,
)
from barnabas.tiering.objects.manifest_file import FencedError, ManifestFile
from barnabas.tiering.objects.segment_build import at_once
from barnabas.tiering.objects.segment_object import read_chunk, read_footer
from barnabas.tiering.stores.store import MissingObjectError, ObjectStore, StoreUnavailableError
from barnabas.tiering.writing.claim import Decision, LogView, claim_manifest
from barnabas.tiering.writing.compacted_copier import CompactedLogCopier
from barnabas.tiering.writing.copier import SegmentCopier
from barnabas.tiering.writing.expiration import FULL_SWEEP_AGE_MS, expire, sweep, sweep_all
from barnabas.tiering.writing.pacing import Step, UploadLimiter, nowhere
from tests.support.builders.segments import FOLDER, NOW, batches, sealed
from tests.tiering.memory_store import MemoryStore

TIMEOUT = 20
Action = Callable[[], Awaitable[None]]
At = Callable[[Step], None]


class Died(BaseException):
    """As kill -9."""


class Truth:
    """Committed records: record n has offset n; the epochs of their leaders; the log start."""

    def __init__(self) -> None:
        self.start = 0
        self.end = 0
        self.epochs: list[tuple[int, int]] = []
        self.is_frozen = False

    def append(self, count: int, epoch: int) -> None:
        if self.is_frozen:
            return
        if not self.epochs or self.epochs[-1][0] < epoch:
            self.epochs.append((epoch, self.end))
        self.end += count

    def frozen(self) -> "Truth":
        """State of a replaced leader, which commits nothing more."""
        known = copy(self)
        known.epochs, known.is_frozen = list(self.epochs), True
        return known


class Replica:
    """A log with all committed records from its local start on. Local retention is applied immediately."""

    def __init__(self, truth: Truth, stride: int) -> None:
        self.truth = truth
        self.stride = stride
        self.local_start = 0
        self.tiered_end = 0

    is_offline = False

    def view(self) -> LogView:
        return LogView(self.truth.start, self.local_start, self.truth.end, tuple(self.truth.epochs))

    async def next_sealed(self, start: int) -> SealedSegment | None:
        assert start >= self.local_start, "what was removed cannot be copied"
        end = (start // self.stride + 1) * self.stride
        if end > self.truth.end:
            return None
        return sealed(start, end, batches(start, end), self.truth.epochs)

    def note_tiered_end(self, offset: int) -> None:
        self.tiered_end = max(self.tiered_end, offset)
        self.local_start = max(self.local_start, self.tiered_end)


class Leader:
    """A leader in one epoch. It retries failures, and stops when it is fenced or at `at`."""

    file: ManifestFile
    copier: SegmentCopier | CompactedLogCopier

    def __init__(self, store: ObjectStore, replica: Replica, epoch: int, at: At = nowhere) -> None:
        self.store = store
        self.replica = replica
        self.writer = ManifestWriter(0, epoch, f"leader of epoch {epoch}")
        self.at = at
        self.fenced = False

    async def work(self, *actions: Action) -> None:
        """Claim, sweep, then the given work."""
        try:
            for action in (self.claim, self.sweep, *actions):
                await self.repeat(action)
        except FencedError:
            self.fenced = True

    async def repeat(self, action: Action) -> None:
        for _ in range(TIMEOUT):
            try:
                return await action()
            except (StoreUnavailableError, MissingObjectError):
                continue
        raise AssertionError(f"{action} never succeeds")

    async def claim(self) -> None:
        claim = await claim_manifest(self.store, FOLDER, self.writer, self.replica.view(), NOW)
        assert claim.decision is Decision.KEEP
        self.file = claim.file
        self.replica.truth.start = max(self.replica.truth.start, claim.log_start)
        pacer = UploadLimiter(lambda: 0.0, 1e15)
        nonces = (f"{number:08x}" for number in range(1 << 30))
        copier = SegmentCopier(
            self.store, self.file, self.replica, pacer, at_once, at=self.at, new_nonce=lambda: next(nonces)
        )
        self.copier = copier
        copier.note_tiered_end()

    async def sweep(self) -> None:
        await sweep(self.store, self.file)

    async def sweep_all(self) -> None:
        await sweep_all(self.store, self.file, NOW + FULL_SWEEP_AGE_MS)

    async def copy(self) -> None:
        """All there is."""
        while await self.copier.copy_next():
            pass

    def append(self, count: int) -> Action:
        async def appended() -> None:
            self.replica.truth.append(count, self.writer.leader_epoch)

        return appended

    def expire(self, start: int) -> Action:
        async def expired() -> None:
            truth = self.replica.truth
            truth.start = max(truth.start, min(start, truth.end))
            await expire(self.store, self.file, truth.start, NOW, 0, self.at)

        return expired


def dying_at(step: Step, visit: int = 1) -> At:
    """Dies when it is there for the n-th time."""
    left = {"visits": visit}

    def at(where: Step) -> None:
        if where is step:
            left["visits"] -= 1
            if not left["visits"]:
                raise Died(step)

    return at


# -- what must be true --------------------------------------------------------------------------------


async def check_readable(store: MemoryStore, replica: Replica) -> None:
    """Each committed record that is not on the leader's disk is in exactly one listed segment."""
    offsets = await remote_offsets(store.copy())
    assert offsets == sorted(set(offsets)), "overlap"
    truth = replica.truth
    wanted = range(truth.start, replica.local_start)
    assert set(wanted) <= set(offsets), f"{sorted(set(wanted) - set(offsets))} cannot be read"


async def remote_offsets(store: MemoryStore) -> list[int]:
    """Offsets of all records in listed segments, from the log start on; every byte is checked."""
    manifest = manifest_in(store)
    offsets = []
    for entry in entries_in(store, manifest):
        key = FOLDER.key(entry.key)
        footer = await read_footer(store, key, entry)
        for number in range(len(footer.chunks)):
            chunk = await read_chunk(store, key, footer, number)
            found = [header.base_offset for _, header in iterate_headers(chunk)]
            offsets += [each for each in found if entry.base <= each < entry.end]
    return [each for each in offsets if each >= manifest.log_start]


def manifest_in(store: MemoryObjectStore) -> Manifest:
    return decode(store.contents(FOLDER.manifest), FOLDER)


def entries_in(store: MemoryObjectStore, manifest: Manifest) -> Iterator[SegmentEntry]:
    for page in manifest.pages:
        paged = decode_page(store.contents(FOLDER.key(page.key)), page.key)
        yield from (entry for entry in paged if entry.end > manifest.log_start)
    yield from manifest.entries


def unlisted(store: MemoryStore) -> set[str]:
    """Objects that the manifest does not name, not even as garbage."""
    manifest = manifest_in(store)
    named = set(manifest.named()) | {entry.key for entry in entries_in(store, manifest)}
    for removed in (*manifest.garbage, *manifest.quarantine):
        if removed.kind is RemovedKind.PAGE and FOLDER.key(removed.key) in store.keys:
            paged = decode_page(store.contents(FOLDER.key(removed.key)), removed.key)
            named |= {entry.key for entry in paged}
    there = {key.removeprefix(FOLDER.prefix) for key in store.keys}
    return {name for name in there - named if parse_object_name(name)}
