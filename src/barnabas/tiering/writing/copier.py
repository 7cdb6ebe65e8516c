"""Copy the sealed segments of one led partition, each exactly once.

U1  chosen         the next segment, which begins exactly at T
U2  first part     a part of the object is in the store, not visible
U3  object whole   footer verified, not listed yet: an orphan if the leader fails now
U4  CAS sent       the manifest with the segment
U5  answered       the segment is copied
U6  T noted        local retention may delete the local segment

A retry in the same epoch uses the same name and the same bytes, so it leaves no orphan. Orphans of a failed leader have
a base of T or more and a lower epoch; the next leader sweeps them (sweep.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.log.tiering import SealedSegment
from barnabas.tiering.objects.layout import SegmentName
from barnabas.tiering.objects.manifest import Manifest, SegmentEntry
from barnabas.tiering.objects.manifest_changes import add, needs_page
from barnabas.tiering.objects.manifest_file import FencedError, ManifestFile
from barnabas.tiering.objects.segment_build import InThread
from barnabas.tiering.stores.store import ObjectStore, StoreError, StoreUnavailableError
from barnabas.tiering.writing.pacing import At, Step, UploadLimiter, nowhere
from barnabas.tiering.writing.uploading import (
    STALL_SECONDS,
    SegmentUploads,
    UploadProgress,
    random_nonce,
    write_page,
)


class LocalSegments(Protocol):
    """Interface of the leader's log used by the copier."""

    async def next_sealed(self, start: int) -> SealedSegment | None:
        """Return the batches from `start` of the segment that contains it, if that is sealed and completely below high
        watermark, last stable offset and recovery point. The first batch begins exactly at `start`; if nothing is
        copied yet, it is the one that contains `start`."""
        ...

    def note_tiered_end(self, offset: int) -> None:
        """Allow local retention to delete segments below `offset`: they are copied."""
        ...


class _Planned:
    """Segment being copied, with everything that a retry needs to produce the same object."""

    def __init__(self, start: int, segment: SealedSegment, name: str) -> None:
        self.start = start
        self.segment = segment
        self.name = name
        self.entry: SegmentEntry | None = None  # set when the object is written
        self.is_checked = False


class SegmentCopier:
    def __init__(
        self,
        store: ObjectStore,
        file: ManifestFile,
        log: LocalSegments,
        pacer: UploadLimiter,
        in_thread: InThread,
        *,
        at: At = nowhere,
        new_nonce: Callable[[], str] = random_nonce,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._store = store
        self._file = file
        self._log = log
        self._uploads = SegmentUploads(store, file, pacer, in_thread, at=at, stall_seconds=stall_seconds)
        self._at = at
        self._new_nonce = new_nonce
        self._planned: _Planned | None = None

    @property
    def in_progress(self) -> UploadProgress | None:
        return self._uploads.in_progress

    async def copy_next(self) -> SegmentEntry | None:
        """Copy one segment; None if there is none to copy. After an error, call it again to resume."""
        planned = await self._choose()
        if planned is None:
            return None
        if planned.entry is None:
            planned.entry = await self._upload(planned)
        if not planned.is_checked:
            await self._check(planned, planned.entry)
            self._at(Step.WHOLE)
        await self._list(planned.entry)
        self._at(Step.ANSWERED)
        self._planned = None
        self.note_tiered_end()
        self._at(Step.NOTED)
        return planned.entry

    def note_tiered_end(self) -> None:
        """Pass the manifest's tiered end to the log."""
        self._log.note_tiered_end(self._file.manifest.tiered_end)

    async def _choose(self) -> _Planned | None:
        start = self._file.manifest.tiered_end
        if self._planned is not None and self._planned.start == start:
            return self._planned
        await self._abandon()
        segment = await self._log.next_sealed(start)
        if segment is None:
            return None
        name = SegmentName(segment.base, self._file.writer.leader_epoch, self._new_nonce())
        self._planned = _Planned(start, segment, str(name))
        self._at(Step.CHOSEN)
        return self._planned

    async def _abandon(self) -> None:
        """Drop the planned segment after T has moved: it was listed by a CAS without a response, or it expired. An
        expired one is never listed: a CAS that names it is older than the one that moved T, and fails."""
        planned = self._planned
        if planned is not None:
            await self._remove_unlisted(planned.name, planned.segment.base)
        self._planned = None

    async def _upload(self, planned: _Planned) -> SegmentEntry:
        return await self._uploads.upload(planned.segment, planned.name)

    async def _check(self, planned: _Planned, entry: SegmentEntry) -> None:
        try:
            await self._uploads.check(planned.name, entry)
            planned.is_checked = True
        except StoreUnavailableError:
            raise
        except StoreError:
            planned.entry = None  # upload it again
            raise

    async def _list(self, entry: SegmentEntry) -> None:
        async def added(manifest: Manifest) -> Manifest:
            if needs_page(manifest):
                manifest = await write_page(self._store, self._file, manifest)
            after = add(manifest, entry)
            self._at(Step.CAS_SENT)
            return after

        try:
            await self._file.change(added)
        except FencedError:
            await self._remove_unlisted(entry.key, entry.base)
            raise

    async def _remove_unlisted(self, name: str, base: int) -> None:
        """Delete an object that the changed manifest does not list: no pending CAS can list it any more. If in doubt,
        keep it: a sweep deletes it later."""
        if not self._file.manifest.may_name(name, base):
            await self._store.delete(self._file.folder.key(name))
