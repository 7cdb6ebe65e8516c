"""Manifest of a partition for readers: finds the segment of an offset.

A leader's writer provides the manifest (`follow`); others read it from the store. All read it again when an offset
is not listed, or an object is missing or damaged. It is valid for one leader epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from barnabas.tiering.objects.layout import PartitionFolder
from barnabas.tiering.objects.manifest import Manifest, ManifestPage, SegmentEntry, entry_key, find_entry
from barnabas.tiering.objects.manifest_file import read_manifest, read_page
from barnabas.tiering.stores.store import MissingObjectError, ObjectReader, StoreError

PAGES_KEPT = 4
"""Cached pages of a thousand entries, about 400 KB each."""


class ManifestReader:
    def __init__(self, folder: PartitionFolder, store: ObjectReader) -> None:
        self._folder = folder
        self._store = store
        self._reading: asyncio.Task[Manifest] | None = None
        self._tasks: set[asyncio.Task[Manifest]] = set()
        self._pages: dict[str, tuple[SegmentEntry, ...]] = {}
        self._known: Manifest | None = None
        self._of_writer: Callable[[], Manifest | None] | None = None

    @property
    def current(self) -> Manifest | None:
        """Latest known manifest."""
        return (self._of_writer() if self._of_writer is not None else None) or self._known

    def use(self, manifest: Manifest | None) -> None:
        """Set the latest manifest; None after a leader change, until it is read again. A read in progress may return an
        older one and is ignored."""
        self._known = manifest
        if manifest is None:
            self._reading = self._of_writer = None

    def follow(self, of_writer: Callable[[], Manifest | None]) -> None:
        """Use the manifest of the writer that this broker runs as leader, once it has one; until `use(None)`."""
        self._of_writer = of_writer

    async def refresh(self) -> Manifest:
        """Read the manifest; concurrent callers share one request."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
            self._tasks.add(self._reading)
            self._reading.add_done_callback(self._has_read)
        return await asyncio.shield(self._reading)

    async def _read(self) -> Manifest:
        seen = await read_manifest(self._store, self._folder)
        if seen is None:
            raise MissingObjectError(f"{self._folder.manifest} is not there")
        return seen.manifest

    def _has_read(self, task: asyncio.Task[Manifest]) -> None:
        self._tasks.discard(task)
        is_wanted = task is self._reading
        if is_wanted:
            self._reading = None
        if not task.cancelled() and task.exception() is None and is_wanted:
            read, known = task.result(), self.current
            if known is None or known.fence <= read.fence:
                self._known = read

    # -- entries ------------------------------------------------------------------------------------

    async def entry_at(self, offset: int) -> SegmentEntry:
        """Return the entry of the offset, if necessary from a newer manifest; StoreError if no segment contains it."""
        entry = await self.listed(offset)
        if entry is None:
            entry = await self._listed_in(await self.refresh(), offset)
        if entry is None:
            raise StoreError(f"no remote segment holds offset {offset}: see {self._folder.manifest}")
        return entry

    async def listed(self, offset: int) -> SegmentEntry | None:
        """Return the entry from the known manifest; may read a page from the store."""
        return await self._listed_in(self.current, offset) if self.current is not None else None

    async def _listed_in(self, manifest: Manifest, offset: int) -> SegmentEntry | None:
        entry = manifest.entry_at(offset)
        page = manifest.page_at(offset) if entry is None else None
        return entry if page is None else find_entry(await self.entries_of(page), offset)

    def in_memory(self, offset: int) -> SegmentEntry | None:
        """Return the entry if it is in memory."""
        manifest = self.current
        if manifest is None:
            return None
        entry = manifest.entry_at(offset)
        page = manifest.page_at(offset) if entry is None else None
        if page is None:
            return entry
        return find_entry(self._pages.get(entry_key(self._folder, page), ()), offset)

    async def entries_of(self, part: ManifestPage | SegmentEntry) -> tuple[SegmentEntry, ...]:
        """Entries of a page; a segment's entry is returned as is."""
        if isinstance(part, SegmentEntry):
            return (part,)
        key = entry_key(self._folder, part)
        entries = self._pages.get(key)
        if entries is None:
            entries = await read_page(self._store, self._folder, part)
            if len(self._pages) >= PAGES_KEPT:
                del self._pages[next(iter(self._pages))]
            self._pages[key] = entries
        return entries

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
