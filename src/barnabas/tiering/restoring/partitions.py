"""Check the partitions of a lost cluster and claim them for the restored one.

`look` changes nothing. A replicated bucket may be incomplete: objects arrive in any order, so a manifest may list
missing ones. The partition is cut at the first missing or incomplete object; later segments go to quarantine, which
only an operator deletes. `take` writes the new incarnation into the manifest, after which all writes of the old cluster
fail.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from barnabas.tiering.objects.layout import PartitionFolder, parse_segment_name
from barnabas.tiering.objects.manifest import (
    Manifest,
    ManifestPage,
    ManifestState,
    ManifestWriter,
    SegmentEntry,
    encode,
    entry_key,
)
from barnabas.tiering.objects.manifest_changes import claim, cut, new_manifest
from barnabas.tiering.objects.manifest_file import (
    FencedError,
    ManifestVersion,
    change_manifest,
    read_manifest,
    read_page,
    read_page_at,
)
from barnabas.tiering.objects.segment_object import BadObjectError, read_footer
from barnabas.tiering.repair import rebuild
from barnabas.tiering.stores.store import (
    MissingObjectError,
    ObjectExistsError,
    ObjectStore,
    StoreError,
    StoreUnavailableError,
)

AT_ONCE = 64
RESTORER = "barnabas cluster restore"

T = TypeVar("T")
R = TypeVar("R")


class RestoredPartition(NamedTuple):
    """Checked partition. `seen` is None without a stored manifest: nothing was copied, or only segments have
    arrived."""

    folder: PartitionFolder
    manifest: Manifest
    seen: ManifestVersion | None
    cut_at: int | None = None
    missing: str = ""  # reason for the cut

    @property
    def is_deleted(self) -> bool:
        return self.manifest.state is ManifestState.DELETED

    @property
    def tiered_end(self) -> int:
        return self.manifest.tiered_end


async def look(store: ObjectStore, folder: PartitionFolder) -> RestoredPartition:
    """Check a partition; BadManifestError if the manifest is unusable."""
    seen = await read_manifest(store, folder)
    if seen is None:
        return await _without_manifest(store, folder)
    manifest = seen.manifest
    if manifest.state is ManifestState.DELETED:
        return RestoredPartition(folder, manifest, seen)
    limit = await _first_missing(store, folder, manifest)
    if limit is None:
        return RestoredPartition(folder, manifest, seen)
    cut_at, reason = limit
    return RestoredPartition(folder, await _cut(store, folder, manifest, cut_at), seen, cut_at, reason)


async def _without_manifest(store: ObjectStore, folder: PartitionFolder) -> RestoredPartition:
    """Build a new manifest from the footers of the existing segments."""
    names = [info.key.removeprefix(folder.prefix) async for info in store.list(folder.prefix)]
    if not any(map(parse_segment_name, names)):
        return RestoredPartition(folder, new_manifest(folder, ManifestWriter(0, -1, RESTORER), 0), None)
    rebuilt = await rebuild(store, folder, 0, _now_ms())
    return RestoredPartition(folder, rebuilt.manifest, None)


async def _cut(store: ObjectStore, folder: PartitionFolder, manifest: Manifest, offset: int) -> Manifest:
    try:
        page = await read_page_at(store, folder, manifest, offset)
    except StoreUnavailableError:
        raise
    except StoreError:
        page = ()  # the page is missing: the partition is cut at its base
    return cut(manifest, offset, _now_ms(), page)


async def _first_missing(
    store: ObjectStore, folder: PartitionFolder, manifest: Manifest
) -> tuple[int, str] | None:
    """Offset and description of the first missing or incomplete object."""
    there = _FolderListings(store)
    last: SegmentEntry | None = None
    for part in manifest.parts:
        try:
            entries = await _entries(store, folder, part)
        except StoreUnavailableError:
            raise
        except StoreError as error:
            return part.base, error.message
        for entry in entries:
            if entry.end <= manifest.log_start:
                continue
            key = entry_key(folder, entry)
            if await there.size(key) != entry.total:
                return entry.base, f"{key} is missing or incomplete"
            last = entry
    return await _check_footer(store, folder, last) if last is not None else None


async def _check_footer(
    store: ObjectStore, folder: PartitionFolder, last: SegmentEntry
) -> tuple[int, str] | None:
    """Verify the last footer, which holds the initial state of the restored log."""
    try:
        await read_footer(store, entry_key(folder, last), last)
    except (BadObjectError, MissingObjectError) as error:
        return last.base, error.message
    return None


async def _entries(
    store: ObjectStore, folder: PartitionFolder, part: SegmentEntry | ManifestPage
) -> tuple[SegmentEntry, ...]:
    return (part,) if isinstance(part, SegmentEntry) else await read_page(store, folder, part)


class _FolderListings:
    """Objects in the folders of a partition and of its sources; each folder is listed once."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._sizes: dict[str, dict[str, int]] = {}

    async def size(self, key: str) -> int | None:
        prefix = key.rpartition("/")[0] + "/"
        if prefix not in self._sizes:
            self._sizes[prefix] = {info.key: info.size async for info in self._store.list(prefix)}
        return self._sizes[prefix].get(key)


# -- claiming -----------------------------------------------------------------------------------------


async def take(store: ObjectStore, found: RestoredPartition, incarnation: int) -> Manifest:
    """Claim the manifest for the incarnation. FencedError if a later one has claimed it, or the topic is deleted."""
    folder = found.folder
    if found.seen is None:
        return await _create(store, found, incarnation)

    async def taken(manifest: Manifest) -> Manifest:
        if found.cut_at is not None:
            manifest = await _cut(store, folder, manifest, found.cut_at)
        return claim(manifest, ManifestWriter(incarnation, manifest.latest_epoch, RESTORER))

    def check(manifest: Manifest) -> None:
        if manifest.incarnation > incarnation or manifest.state is ManifestState.DELETED:
            raise FencedError(
                f"{folder.manifest} was deleted, or restored by another process, during this restore"
            )

    return (await change_manifest(store, folder, taken, check, found.seen)).manifest


async def _create(store: ObjectStore, found: RestoredPartition, incarnation: int) -> Manifest:
    manifest = replace(found.manifest, incarnation=incarnation)
    try:
        await store.create(found.folder.manifest, encode(manifest))
    except (ObjectExistsError, StoreUnavailableError):
        seen = await read_manifest(store, found.folder)
        if seen is None:
            raise
        return await take(store, found._replace(seen=seen), incarnation)
    return manifest


# -- concurrency --------------------------------------------------------------------------------------


async def for_each(
    items: Iterable[T], work: Callable[[T], Awaitable[R]], done: Callable[[], None], at_once: int = AT_ONCE
) -> list[R | StoreError]:
    """Return the results, including StoreErrors, in the order of the items. Other errors are raised."""
    room = asyncio.Semaphore(at_once)

    async def one(item: T) -> R | StoreError:
        async with room:
            try:
                return await work(item)
            except StoreError as error:
                return error
            finally:
                done()

    tasks = [asyncio.ensure_future(one(item)) for item in items]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
