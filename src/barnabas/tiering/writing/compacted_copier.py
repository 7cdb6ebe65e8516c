"""Copying a compacted log (`barnabas.remote.compacted=copy`): all of it stays local, and the store has a copy.

Compaction leaves a record out because it knows a later one. So segments of two moments, or of two replicas, do not fit
together: a key could be lost, or a deleted one come back. What is listed is therefore always the log of one replica at
one moment, all of its sealed segments:

U1  chosen         a segment that is not in the store as it is here
U2  first part     as in copier.py
U3  object whole   it is not listed; U1 to U3 are repeated until nothing of the log is missing
U4  CAS sent       one manifest in which the new segments replace all that were listed before
U5  answered       what was replaced is garbage
U6  T noted        objects that were overtaken by a compaction before they were listed are deleted

While nothing is compacted, only the segments that are new are missing. After a compaction that is everything below its
upper bound. A new leader compares its segments with those that are listed, chunk by chunk, and copies what differs; it
begins when all that it got from earlier leaders is sealed, because these may have compacted with the knowledge of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.log.tiering import CompactedSegment, SealedSegment
from barnabas.tiering.objects.layout import SegmentName
from barnabas.tiering.objects.manifest import Manifest, RemovedKind, SegmentEntry, entry_key
from barnabas.tiering.objects.manifest_changes import needs_page, replace_all
from barnabas.tiering.objects.manifest_file import FencedError, ManifestFile, listed_entries
from barnabas.tiering.objects.segment_build import InThread
from barnabas.tiering.objects.segment_object import read_footer
from barnabas.tiering.stores.store import ObjectStore, StoreDeniedError, StoreError, StoreUnavailableError
from barnabas.tiering.writing.expiration import delete_all
from barnabas.tiering.writing.pacing import At, Step, UploadLimiter, nowhere
from barnabas.tiering.writing.uploading import (
    STALL_SECONDS,
    SegmentUploads,
    UploadProgress,
    random_nonce,
    write_page,
)

Parts = tuple[CompactedSegment, ...]


class WholeLog(Protocol):
    """The leader's log as this copier uses it."""

    def parts(self) -> Parts:
        """All sealed segments of this moment below high watermark, last stable offset and recovery point, from the log
        start on; each begins where the one before it ends."""
        ...

    async def read(self, part: CompactedSegment) -> SealedSegment | None:
        """None if the log no longer has it."""
        ...


class _Copy:
    """A segment on its way, or in the store."""

    def __init__(self, name: str, entry: SegmentEntry | None = None) -> None:
        self.name = name  # "" for an object that was listed before: it is not ours to delete
        self.entry = entry  # once the object is there, and whole


class WholeLogCopier:
    def __init__(
        self,
        store: ObjectStore,
        file: ManifestFile,
        log: WholeLog,
        pacer: UploadLimiter,
        in_thread: InThread,
        now_ms: Callable[[], int],
        inherited_end: int,
        *,
        at: At = nowhere,
        new_nonce: Callable[[], str] = random_nonce,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        """`inherited_end`: where the log ended when this leader began."""
        self._store = store
        self._file = file
        self._log = log
        self._in_thread = in_thread
        self._now_ms = now_ms
        self._inherited_end = inherited_end
        self._uploads = SegmentUploads(store, file, pacer, in_thread, at=at, stall_seconds=stall_seconds)
        self._at = at
        self._new_nonce = new_nonce
        self._copies: dict[CompactedSegment, _Copy] = {}
        self._pages: set[str] = set()
        parts = log.parts()
        is_complete = bool(parts) and parts[-1].end == file.manifest.tiered_end
        self._listed: Parts = parts if is_complete else ()
        """What the manifest shows."""

    @property
    def under_way(self) -> UploadProgress | None:
        return self._uploads.under_way

    def pending_sizes(self) -> list[int]:
        """Bytes of each segment that the store does not have as it is here."""
        parts = self._log.parts()
        if parts == self._listed:
            return []
        return [part.segment.size for part in parts if not self._is_copied(part)]

    async def copy_next(self) -> SegmentEntry | None:
        """Copy one segment, or list those that are copied; None if there is nothing left to copy. After an error, call
        it again to resume."""
        while parts := self._to_show():
            missing = next((part for part in parts if not self._is_copied(part)), None)
            if missing is None:
                await self._list(parts)
            elif (entry := await self._copy(missing)) is not None:
                return entry
        return None

    def _to_show(self) -> Parts:
        """Empty if the manifest shows all there is."""
        parts = self._log.parts()
        is_due = bool(parts) and parts != self._listed and parts[-1].end >= self._inherited_end
        return parts if is_due else ()

    def _is_copied(self, part: CompactedSegment) -> bool:
        copy = self._copies.get(part)
        return copy is not None and copy.entry is not None

    # -- one segment ----------------------------------------------------------------------------------

    async def _copy(self, part: CompactedSegment) -> SegmentEntry | None:
        """None if nothing had to be copied: an object has the same bytes, or the segment was deleted."""
        segment = await self._log.read(part)
        if segment is None:
            return None
        copy = self._copies.get(part)
        if copy is None:
            if (alike := await self._find_alike(segment)) is not None:
                self._copies[part] = _Copy("", alike)
                return None
            copy = self._copies[part] = _Copy(self._name_of(part))
            self._at(Step.CHOSEN)
        entry = await self._uploads.upload(segment, copy.name)
        await self._uploads.check(copy.name, entry)
        copy.entry = entry
        self._at(Step.WHOLE)
        return entry

    def _name_of(self, part: CompactedSegment) -> str:
        return str(SegmentName(part.base, self._file.writer.leader_epoch, self._new_nonce()))

    async def _find_alike(self, segment: SealedSegment) -> SegmentEntry | None:
        """A listed object with just these batches. What is damaged or missing is not alike: it is replaced."""
        entry = self._file.manifest.entry_at(segment.base)
        if entry is None or (entry.base, entry.end, entry.size) != (
            segment.base,
            segment.end,
            len(segment.data),
        ):
            return None
        try:
            footer = await read_footer(self._store, entry_key(self._file.folder, entry), entry)
        except (StoreUnavailableError, StoreDeniedError):
            raise
        except StoreError:
            return None
        build = self._uploads.build(segment, entry.key)
        async for _ in build.pieces(self._in_thread):
            pass
        return entry if tuple(build.chunks) == footer.chunks and footer.end == segment.end else None

    # -- the manifest ---------------------------------------------------------------------------------

    async def _list(self, parts: Parts) -> None:
        entries = tuple(entry for part in parts if (entry := self._copies[part].entry) is not None)

        async def replaced(manifest: Manifest) -> Manifest:
            listed = await listed_entries(self._store, self._file.folder, manifest)
            after = replace_all(manifest, entries, listed, self._now_ms())
            if after is manifest:
                return manifest
            while needs_page(after):
                after = await write_page(self._store, self._file, after)
                self._pages.add(after.pages[-1].key)
            self._at(Step.CAS_SENT)
            return after

        try:
            await self._file.change(replaced)
        except FencedError:
            await self._remove_unlisted()
            raise
        self._at(Step.ANSWERED)
        self._listed = parts
        await self._forget_others(parts, entries)
        self._at(Step.NOTED)

    async def _forget_others(self, parts: Parts, entries: tuple[SegmentEntry, ...]) -> None:
        """No CAS is unanswered, so what is not named now never will be."""
        current = frozenset(parts)
        await self._remove_unlisted({entry.key for entry in entries})
        self._copies = {part: copy for part, copy in self._copies.items() if part in current}

    async def _remove_unlisted(self, listed: set[str] | None = None) -> None:
        """Delete the objects of this leader that the manifest does not name. In doubt one stays, and a sweep finds
        it. `listed`: the names of all that are live, if they are known."""
        manifest = self._file.manifest
        written = [(copy.name, part.base) for part, copy in self._copies.items() if copy.name]
        unnamed = [name for name, base in written if not _may_name(manifest, name, base, listed)]
        unnamed += [page for page in self._pages if page not in manifest.named()]
        await delete_all(self._store, map(self._file.folder.key, unnamed))
        self._pages.clear()

    def note_tiered_end(self) -> None:
        """The log stays here as a whole: it need not know."""


def _may_name(manifest: Manifest, name: str, base: int, listed: set[str] | None) -> bool:
    if listed is None:
        return manifest.may_name(name, base)
    removed = (*manifest.garbage, *manifest.quarantine)
    in_removed_page = any(each.kind is RemovedKind.PAGE and base < each.end for each in removed)
    return name in listed or in_removed_page or any(each.key == name for each in removed)
