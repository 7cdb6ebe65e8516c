"""Delete expired segments, deleted topics and orphans.

Only the log start triggers the deletion of a segment, never an epoch:

D1  log start raised     by retention or DeleteRecords: in the log, before all other steps
D2  listed as garbage    CAS: readers of the manifest no longer find the segment
D3  objects deleted      after `barnabas.remote.delete.delay.ms`, for readers of an older manifest, and not while
                         pinned. A missing object counts as deleted
D4  garbage collected    CAS
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from functools import partial

from barnabas.common.cooperative import pieces
from barnabas.tiering.objects.layout import (
    PAGE_SUFFIX,
    PartitionFolder,
    SegmentName,
    first_name_from,
    parse_object_name,
    parse_partition_prefix,
)
from barnabas.tiering.objects.manifest import (
    Manifest,
    ManifestSource,
    ManifestState,
    Removed,
    RemovedKind,
    decode_page,
    entry_key,
    is_foreign,
)
from barnabas.tiering.objects.manifest_changes import (
    collect,
    forget_source,
    mark_deleted,
    may_be_deleted,
    note_full_sweep,
    note_sweep,
    raise_log_start,
    touch,
    unpin,
)
from barnabas.tiering.objects.manifest_file import (
    FencedError,
    ManifestFile,
    change_manifest,
    read_manifest,
    read_page_at,
)
from barnabas.tiering.stores.store import MissingObjectError, ObjectInfo, ObjectStore
from barnabas.tiering.writing.pacing import At, Step, nowhere
from barnabas.tiering.writing.uploading import page_pinned_garbage

DELETES_AT_ONCE = 16
MAX_IN_A_ROUND = 1000
"""Deletions per CAS, so that a restart does not repeat all of them."""


async def expire(
    store: ObjectStore, file: ManifestFile, log_start: int, now_ms: int, delay_ms: int, at: At = nowhere
) -> int:
    """Apply the log start of the log to the store; return the number of deleted listed objects."""
    at(Step.LOG_START_RAISED)

    async def raised(manifest: Manifest) -> Manifest:
        page = await read_page_at(store, file.folder, manifest, log_start)
        after = raise_log_start(manifest, log_start, now_ms, page)
        return await page_pinned_garbage(store, file, after)

    manifest = await file.change(raised)
    at(Step.LISTED_AS_GARBAGE)
    await _release_sources(store, file)
    due = [each for each in manifest.garbage if is_due(manifest, each, now_ms, delay_ms)]
    for part in pieces(due, MAX_IN_A_ROUND):
        await _collect(store, file, part, at)
    return len(due)


def is_due(manifest: Manifest, removed: Removed, now_ms: int, delay_ms: int) -> bool:
    return removed.since_ms + delay_ms <= now_ms and may_be_deleted(manifest, removed)


async def _collect(store: ObjectStore, file: ManifestFile, due: Iterable[Removed], at: At) -> None:
    keys = [key for each in due for key in await _objects_of(store, file.folder, each)]
    await delete_all(store, keys)
    at(Step.OBJECTS_DELETED)
    names = {each.key for each in due}

    async def collected(manifest: Manifest) -> Manifest:
        return collect(manifest, names)

    await file.change(collected)
    at(Step.GARBAGE_COLLECTED)


async def _objects_of(store: ObjectStore, folder: PartitionFolder, removed: Removed) -> list[str]:
    """Return the keys to delete. A page comes after its segments: they can be found until it is deleted."""
    key = entry_key(folder, removed)
    if removed.kind is not RemovedKind.PAGE:
        return [key]
    try:
        entries = decode_page((await store.get(key)).data, key)
    except MissingObjectError:
        return []  # already deleted by a request without a response
    await delete_all(store, [folder.key(entry.key) for entry in entries if entry.end > removed.base])
    return [key]


async def delete_all(store: ObjectStore, keys: Iterable[str]) -> None:
    """Delete all keys; raise the first error."""
    for some in pieces(keys, DELETES_AT_ONCE):
        results = await asyncio.gather(*map(store.delete, some), return_exceptions=True)
        for error in results:
            if error is not None:
                raise error


# -- Clones --------------------------------------------------------------------------------------------


async def _release_sources(store: ObjectStore, file: ManifestFile) -> None:
    """Remove a clone's pins on sources that neither the clone nor its snapshots list any more."""
    if file.manifest.pins:
        return
    for source in file.manifest.sources:
        if not any(part.key.startswith(source.prefix) for part in file.manifest.parts):
            await release_source(store, source)
            await file.change(partial(_forgotten, source))


async def _forgotten(source: ManifestSource, manifest: Manifest) -> Manifest:
    return forget_source(manifest, source)


async def release(store: ObjectStore, source: ManifestSource) -> None:
    """Remove a pin; no-op if the source is deleted. The manifest is always replaced, so that a pending CAS that would
    set the pin fails."""
    folder = parse_partition_prefix(source.prefix)

    async def unpinned(manifest: Manifest) -> Manifest:
        after = unpin(manifest, source.pin)
        return touch(manifest) if after is manifest else after

    if folder is not None and await read_manifest(store, folder) is not None:
        await change_manifest(store, folder, unpinned, lambda manifest: None)


async def release_source(store: ObjectStore, source: ManifestSource) -> None:
    """Remove a pin; if the source's topic was deleted and has no other pins, delete its objects."""
    await release(store, source)
    folder = parse_partition_prefix(source.prefix)
    seen = await read_manifest(store, folder) if folder is not None else None
    if folder is not None and seen is not None and seen.manifest.state is ManifestState.DELETED:
        await delete_partition(store, folder, seen.manifest.incarnation)


# -- Topics --------------------------------------------------------------------------------------------


async def delete_partition(store: ObjectStore, folder: PartitionFolder, incarnation: int) -> bool:
    """Delete all objects of a deleted topic's partition; False while pins retain them. Can be repeated to resume."""

    async def deleted(manifest: Manifest) -> Manifest:
        return mark_deleted(manifest)

    def check(manifest: Manifest) -> None:
        # A restored cluster continues the deletions of the old one.
        has_begun = manifest.state is ManifestState.DELETED and manifest.incarnation < incarnation
        if manifest.incarnation != incarnation and not has_begun:
            raise FencedError(
                f"{folder.manifest} belongs to incarnation {manifest.incarnation} of the cluster, not {incarnation}"
            )

    if await read_manifest(store, folder) is not None:
        manifest = (await change_manifest(store, folder, deleted, check)).manifest
        if manifest.pins:
            return False
        for source in manifest.sources:
            await release_source(store, source)
    await delete_all(
        store, [each.key async for each in store.list(folder.prefix) if each.key != folder.manifest]
    )
    await store.delete(folder.manifest)
    return True


# -- Orphans: objects of failed leaders that no manifest lists -----------------------------------------
# After a claim no object of an earlier epoch can be listed any more, because its CAS is based on an older version of
# the manifest. An unlisted object of a lower epoch is therefore an orphan, without reference to time. It begins at or
# above the T of its leader, hence above the sweep mark, and one LIST from there finds all. A leader that lost contact
# with the cluster but not with the store may leave an orphan later and below the mark; a daily full LIST finds those.
#
# Pins need no check: pinned objects are listed as garbage until the pins are removed.

FULL_SWEEP_AGE_MS = 24 * 3600 * 1000
FULL_SWEEP_INTERVAL_MS = 24 * 3600 * 1000


async def sweep(store: ObjectStore, file: ManifestFile, *, everywhere: bool = False) -> list[str]:
    """Delete orphans of earlier leaders above the sweep mark after a claim, and return their keys. `everywhere`: at all
    offsets, for compacted logs, whose leaders replace segments anywhere."""
    manifest = file.manifest
    start = 0 if everywhere else manifest.sweep
    orphans = [info.key async for info in find_orphans(store, file, start)]
    await delete_all(store, orphans)

    async def noted(current: Manifest) -> Manifest:
        return note_sweep(current, manifest.tiered_end)

    await file.change(noted)
    return orphans


def is_full_sweep_due(manifest: Manifest, now_ms: int) -> bool:
    """True once a day, also across leader changes: the manifest stores the time of the last sweep."""
    return manifest.swept_ms + FULL_SWEEP_INTERVAL_MS <= now_ms


async def sweep_all(store: ObjectStore, file: ManifestFile, now_ms: int) -> list[str]:
    """Delete orphans at all offsets that are older than a day; runs daily."""
    orphans = [
        info.key
        async for info in find_orphans(store, file, 0)
        if info.modified_ms + FULL_SWEEP_AGE_MS <= now_ms
    ]
    await delete_all(store, orphans)

    async def noted(current: Manifest) -> Manifest:
        return note_full_sweep(current, now_ms)

    await file.change(noted)
    return orphans


async def find_orphans(store: ObjectStore, file: ManifestFile, start: int) -> AsyncIterator[ObjectInfo]:
    """Yield unlisted objects of earlier epochs with a base of `start` or more."""
    prefix = file.folder.prefix
    known = _Named(store, prefix, file.manifest)
    async for info in store.list(prefix, prefix + first_name_from(start)):
        name = parse_object_name(info.key.removeprefix(prefix))
        if name is None or name.leader_epoch >= file.writer.leader_epoch:
            continue
        if not await known.has(name):
            yield info


class _Named:
    """Names listed in a manifest and its pages. Queries come in offset order, so one page at a time is loaded."""

    def __init__(self, store: ObjectStore, prefix: str, manifest: Manifest) -> None:
        self._store = store
        self._prefix = prefix
        self._names = manifest.named()
        removed = (*manifest.garbage, *manifest.quarantine)
        pages = [(page.key, page.base, page.end) for page in manifest.pages]
        pages += [(each.key, 0, each.end) for each in removed if each.kind is RemovedKind.PAGE]
        self._pages = [page for page in pages if not is_foreign(page[0])]
        self._read: dict[str, frozenset[str]] = {}

    async def has(self, name: SegmentName) -> bool:
        if str(name) in self._names:
            return True
        if name.suffix == PAGE_SUFFIX:
            return False
        for key, base, end in self._pages:
            if base <= name.base < end and str(name) in await self._names_in(key):
                return True
        return False

    async def _names_in(self, page: str) -> frozenset[str]:
        found = self._read.get(page)
        if found is None:
            key = self._prefix + page
            entries = decode_page((await self._store.get(key)).data, key)
            found = frozenset(entry.key for entry in entries)
            self._read = {page: found}
        return found
