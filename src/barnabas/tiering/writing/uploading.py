"""Rate-limited upload of one object and its verification, shared by both copiers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing

from barnabas.log.tiering import SealedSegment
from barnabas.tiering.objects.manifest import Manifest, SegmentEntry
from barnabas.tiering.objects.manifest_changes import garbage_to_page, move_to_page, pinned_run
from barnabas.tiering.objects.manifest_file import ManifestFile
from barnabas.tiering.objects.segment_build import InThread, SegmentBuild
from barnabas.tiering.objects.segment_object import read_footer
from barnabas.tiering.stores.store import ObjectStore, StoreError, StoreUnavailableError
from barnabas.tiering.writing.pacing import At, Step, UploadLimiter, nowhere

STALL_SECONDS = 60.0
"""An upload is cancelled after this time without progress."""


def random_nonce() -> str:
    """Random part of object names: makes the names of a leader's objects unique."""
    return secrets.token_hex(4)


class UploadProgress:
    """Progress of an upload. Includes indexes and footer, so `sent` may slightly exceed `size`."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.sent = 0


class SegmentUploads:
    def __init__(
        self,
        store: ObjectStore,
        file: ManifestFile,
        pacer: UploadLimiter,
        in_thread: InThread,
        *,
        at: At = nowhere,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._store = store
        self._file = file
        self._pacer = pacer
        self._in_thread = in_thread
        self._at = at
        self._stall_seconds = stall_seconds
        self.in_progress: UploadProgress | None = None

    def build(self, segment: SealedSegment, name: str) -> SegmentBuild:
        return SegmentBuild(self._file.folder, segment, self._file.writer.leader_epoch, name)

    async def upload(self, segment: SealedSegment, name: str) -> SegmentEntry:
        key = self._file.folder.key(name)
        build = self.build(segment, name)
        self.in_progress = UploadProgress(len(segment.data))
        try:
            async with (
                self._pacer.uploads,
                asyncio.timeout(self._stall_seconds) as limit,
                aclosing(self._paced(build, limit)) as pieces,
            ):
                await self._store.upload(key, pieces)
        except TimeoutError as error:
            raise StoreUnavailableError(
                f"{key}: the upload made no progress for {self._stall_seconds:g} s"
            ) from error
        finally:
            self.in_progress = None
        if build.entry is None:
            raise StoreError(f"{key}: the store confirmed the upload, but read only a part of it")
        return build.entry

    async def check(self, name: str, entry: SegmentEntry) -> None:
        """Verify size and footer of the object, because the local segment will be deleted."""
        await read_footer(self._store, self._file.folder.key(name), entry)

    async def _paced(self, build: SegmentBuild, limit: asyncio.Timeout) -> AsyncGenerator[bytes]:
        """Yield the pieces at the limited rate. Time spent waiting for the limiter does not count towards the
        timeout."""
        is_first = True
        async with aclosing(build.pieces(self._in_thread)) as pieces:
            limit.reschedule(None)
            async for piece in pieces:
                await self._pacer.take(len(piece))
                limit.reschedule(asyncio.get_running_loop().time() + self._stall_seconds)
                yield piece
                if self.in_progress is not None:
                    self.in_progress.sent += len(piece)
                if is_first:
                    self._at(Step.FIRST_PART)
                    is_first = False
                limit.reschedule(None)
        limit.reschedule(asyncio.get_running_loop().time() + self._stall_seconds)


async def write_page(store: ObjectStore, file: ManifestFile, manifest: Manifest) -> Manifest:
    """Move the oldest entries of a manifest with too many to a page, and write the page."""
    after, page, data = move_to_page(manifest, file.writer.leader_epoch)
    await store.put(file.folder.key(page), data)
    return after


async def page_pinned_garbage(store: ObjectStore, file: ManifestFile, manifest: Manifest) -> Manifest:
    """Move pinned garbage to a page if there is much of it, because the manifest is written with every segment. One
    page per round, so that a month of garbage does not delay copying."""
    run = pinned_run(manifest)
    if not run:
        return manifest
    after, page, data = garbage_to_page(manifest, run, file.writer.leader_epoch)
    await store.put(file.folder.key(page), data)
    return after
