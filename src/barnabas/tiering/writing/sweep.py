"""Find and delete orphans: objects of failed leaders that no manifest lists.

After a claim no object of an earlier epoch can be listed any more, because its CAS is based on an older version of the
manifest. An unlisted object of a lower epoch is therefore an orphan, without reference to time. It begins at or above
the T of its leader, hence above the sweep mark, and one LIST from there finds all. A leader that lost contact with the
cluster but not with the store may leave an orphan later and below the mark; a daily full LIST finds those.

Pins need no check: pinned objects are listed as garbage until the pins are removed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from barnabas.tiering.objects.layout import PAGE_SUFFIX, SegmentName, first_name_from, parse_object_name
from barnabas.tiering.objects.manifest import Manifest, RemovedKind, decode_page, is_foreign
from barnabas.tiering.objects.manifest_changes import note_full_sweep, note_sweep
from barnabas.tiering.objects.manifest_file import ManifestFile
from barnabas.tiering.stores.store import ObjectInfo, ObjectStore
from barnabas.tiering.writing.expiration import delete_all

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
