"""Read the manifest and replace it by compare-and-swap (CAS).

A CAS without a response may have succeeded or may succeed later, so the manifest is read before a retry. Either it
contains the change; or another writer was faster, and the change is applied to its version; or it is unchanged, and the
same CAS is sent again, of which at most one succeeds. A version counter makes every manifest unique.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from fastcrc.crc32 import iscsi as crc32c
from msgspec.structs import replace

from barnabas.tiering.objects.layout import PartitionFolder
from barnabas.tiering.objects.manifest import (
    BadManifestError,
    Manifest,
    ManifestPage,
    ManifestState,
    ManifestWriter,
    SegmentEntry,
    decode,
    decode_page,
    encode,
    entry_key,
    is_foreign,
    whole_key,
)
from barnabas.tiering.stores.store import (
    MissingObjectError,
    ObjectReader,
    ObjectStore,
    StaleVersionError,
    StoreError,
    StoreUnavailableError,
)

ATTEMPTS = 10
"""Maximum CAS attempts per change. Conflicts are rare: a snapshot, a deletion, a new leader."""


class FencedError(StoreError):
    """Another writer has claimed the manifest, or the topic is deleted: this writer must stop."""


class ReplacedError(FencedError):
    """The manifest was rebuilt by a repair: the leader may claim it again."""


class ManifestVersion(NamedTuple):
    """Manifest as read or written, with its version in the store."""

    manifest: Manifest
    data: bytes
    version: str  # of the store


Change = Callable[[Manifest], Awaitable[Manifest]]
"""Returns the same object if nothing changes. May be called several times."""
Check = Callable[[Manifest], None]


async def read_manifest(store: ObjectReader, folder: PartitionFolder) -> ManifestVersion | None:
    """Read a manifest; None if it is missing, BadManifestError if it is unusable."""
    try:
        found = await store.get(folder.manifest)
    except MissingObjectError:
        return None
    return ManifestVersion(decode(found.data, folder), found.data, found.version)


async def read_page(
    store: ObjectReader, folder: PartitionFolder, page: ManifestPage
) -> tuple[SegmentEntry, ...]:
    """Read the entries of a page; for a page of another folder, with full keys."""
    key = entry_key(folder, page)
    data = (await store.get(key)).data
    if crc32c(data) != page.crc:
        raise BadManifestError(f"{key}, a page of {folder.manifest}, has a wrong checksum")
    entries = decode_page(data, key)
    if not is_foreign(page.key):
        return entries
    prefix = key.rpartition("/")[0] + "/"
    return tuple(replace(entry, key=whole_key(prefix, entry.key)) for entry in entries)


async def listed_entries(
    store: ObjectReader, folder: PartitionFolder, manifest: Manifest
) -> tuple[SegmentEntry, ...]:
    """Return all entries, including those in pages, some of which may be below the log start."""
    paged = [entry for page in manifest.pages for entry in await read_page(store, folder, page)]
    return (*paged, *manifest.entries)


async def read_page_at(
    store: ObjectStore, folder: PartitionFolder, manifest: Manifest, offset: int
) -> tuple[SegmentEntry, ...] | None:
    page = manifest.page_at(offset)
    return None if page is None else await read_page(store, folder, page)


async def change_manifest(
    store: ObjectStore,
    folder: PartitionFolder,
    change: Change,
    check: Check,
    seen: ManifestVersion | None = None,
) -> ManifestVersion:
    """Apply the change to `seen` or to the current manifest. `check` raises if it is not allowed."""
    for _ in range(ATTEMPTS):
        if seen is None:
            seen = await read_manifest(store, folder)
        if seen is None:
            raise FencedError(f"{folder.manifest} does not exist: the topic was deleted")
        check(seen.manifest)
        updated = await change(seen.manifest)
        if updated is seen.manifest:
            return seen
        data = encode(updated)
        try:
            version = await store.replace(folder.manifest, data, seen.version)
            return ManifestVersion(updated, data, version)
        except (StaleVersionError, StoreUnavailableError, MissingObjectError):
            seen = await read_manifest(store, folder)
        if seen is not None and seen.data == data:
            return seen
    raise StoreUnavailableError(f"{folder.manifest} was changed concurrently in all of {ATTEMPTS} attempts")


class ManifestFile:
    """Manifest of the writer of one leader epoch. Changes are sequential."""

    def __init__(
        self, store: ObjectStore, folder: PartitionFolder, writer: ManifestWriter, seen: ManifestVersion
    ) -> None:
        self._store = store
        self.folder = folder
        self.writer = writer
        self.manifest = seen.manifest
        """Latest known version; after an error, the latest one read."""
        self._seen: ManifestVersion | None = seen

    async def change(self, change: Change) -> Manifest:
        """Change the manifest; FencedError if another writer has claimed it. After a StoreUnavailableError the change
        may take effect at any time; the next change reads the manifest first."""
        seen, self._seen = self._seen, None
        seen = await change_manifest(self._store, self.folder, change, self._check, seen)
        self._seen, self.manifest = seen._replace(data=b""), seen.manifest  # the bytes may be 250 KB
        return seen.manifest

    async def look(self) -> None:
        """Read changes by others (snapshot, repair). FencedError as in `change`."""
        seen = await read_manifest(self._store, self.folder)
        if seen is None:
            raise FencedError(f"{self.folder.manifest} does not exist: the topic was deleted")
        self._check(seen.manifest)
        self._seen = seen._replace(data=b"")

    def _check(self, manifest: Manifest) -> None:
        self.manifest = manifest
        check_writer(manifest, self.writer, self.folder)


def check_writer(manifest: Manifest, writer: ManifestWriter, folder: PartitionFolder) -> None:
    """Raise FencedError if another writer has claimed the manifest or the topic is deleted; ReplacedError if the
    manifest has an earlier writer than this one."""
    check_live(manifest, folder)
    if (manifest.incarnation, manifest.leader_epoch, manifest.writer) != writer:
        is_older = manifest.fence < (writer.incarnation, writer.leader_epoch)
        raise (ReplacedError if is_older else FencedError)(
            f"{folder.manifest} is written by {manifest.writer} in leader epoch {manifest.leader_epoch} "
            f"(incarnation {manifest.incarnation}), no longer in epoch {writer.leader_epoch}"
        )


def check_live(manifest: Manifest, folder: PartitionFolder) -> None:
    if manifest.state is ManifestState.DELETED:
        raise FencedError(f"{folder.manifest}: the topic is deleted")
