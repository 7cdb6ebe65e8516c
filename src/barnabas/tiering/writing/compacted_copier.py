"""Copy a compacted log (`barnabas.remote.compacted=copy`): the whole log stays local, and the store has a copy.

Compaction removes a record because of a later one. Segments of different times or replicas must therefore not be
combined: a key could be lost, or a deleted one reappear. The manifest always lists all sealed segments of one replica
at one point in time:

U1  chosen         a segment whose current version is not in the store
U2  first part     as in copier.py
U3  object whole   not listed yet; U1 to U3 are repeated until all segments are copied
U4  CAS sent       one manifest in which the new segments replace all listed ones
U5  answered       the replaced segments are garbage
U6  T noted        objects superseded by a compaction before they were listed are deleted

Without compaction only new segments are copied. After a compaction, all segments below its upper bound are copied
again. A new leader compares its segments with the listed ones, chunk by chunk, and copies those that differ. It starts
when all records from earlier leaders are in sealed segments, because the earlier leaders may have used them for
compaction.
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


class CompactedLog(Protocol):
    """Interface of the leader's log used by this copier."""

    def parts(self) -> Parts:
        """Return all current sealed segments below high watermark, last stable offset and recovery point, from the log
        start; contiguous."""
        ...

    async def read(self, part: CompactedSegment) -> SealedSegment | None:
        """Return the contents of a segment; None if the log no longer has it."""
        ...


class _Copy:
    """Segment that is being copied or is in the store."""

    def __init__(self, name: str, entry: SegmentEntry | None = None) -> None:
        self.name = name  # "" for an object listed before: this copier must not delete it
        self.entry = entry  # set when the object is complete


class CompactedLogCopier:
    def __init__(
        self,
        store: ObjectStore,
        file: ManifestFile,
        log: CompactedLog,
        pacer: UploadLimiter,
        in_thread: InThread,
        now_ms: Callable[[], int],
        inherited_end: int,
        *,
        at: At = nowhere,
        new_nonce: Callable[[], str] = random_nonce,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        """`inherited_end`: log end offset at the start of this leader."""
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
        """Segments that the manifest lists."""

    @property
    def in_progress(self) -> UploadProgress | None:
        return self._uploads.in_progress

    def pending_sizes(self) -> list[int]:
        """Sizes of the segments whose current version is not in the store."""
        parts = self._log.parts()
        if parts == self._listed:
            return []
        return [part.segment.size for part in parts if not self._is_copied(part)]

    async def copy_next(self) -> SegmentEntry | None:
        """Copy one segment, or list the copied ones; None if there is nothing left to copy. After an error, call it
        again to resume."""
        while parts := self._to_show():
            missing = next((part for part in parts if not self._is_copied(part)), None)
            if missing is None:
                await self._list(parts)
            elif (entry := await self._copy(missing)) is not None:
                return entry
        return None

    def _to_show(self) -> Parts:
        """Return the segments to list; empty if the manifest is up to date or inherited records are not sealed yet."""
        parts = self._log.parts()
        is_due = bool(parts) and parts != self._listed and parts[-1].end >= self._inherited_end
        return parts if is_due else ()

    def _is_copied(self, part: CompactedSegment) -> bool:
        copy = self._copies.get(part)
        return copy is not None and copy.entry is not None

    # -- one segment ----------------------------------------------------------------------------------

    async def _copy(self, part: CompactedSegment) -> SegmentEntry | None:
        """Copy a segment; None if an identical object exists or the segment was deleted."""
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
        """Find a listed object with the same batches. Damaged or missing objects do not match and are replaced."""
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
        """Delete superseded objects. No CAS is pending, so an object that is not listed now never will be."""
        current = frozenset(parts)
        await self._remove_unlisted({entry.key for entry in entries})
        self._copies = {part: copy for part, copy in self._copies.items() if part in current}

    async def _remove_unlisted(self, listed: set[str] | None = None) -> None:
        """Delete this leader's objects that the manifest does not list. If in doubt, keep them: a sweep deletes them
        later. `listed`: names of all live objects, if known."""
        manifest = self._file.manifest
        written = [(copy.name, part.base) for part, copy in self._copies.items() if copy.name]
        unnamed = [name for name, base in written if not _may_name(manifest, name, base, listed)]
        unnamed += [page for page in self._pages if page not in manifest.named()]
        await delete_all(self._store, map(self._file.folder.key, unnamed))
        self._pages.clear()

    def note_tiered_end(self) -> None:
        """No action: the whole log stays local."""


def _may_name(manifest: Manifest, name: str, base: int, listed: set[str] | None) -> bool:
    if listed is None:
        return manifest.may_name(name, base)
    removed = (*manifest.garbage, *manifest.quarantine)
    in_removed_page = any(each.kind is RemovedKind.PAGE and base < each.end for each in removed)
    return name in listed or in_removed_page or any(each.key == name for each in removed)
