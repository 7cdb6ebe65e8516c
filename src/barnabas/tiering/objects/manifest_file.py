"""Reads the manifest and replaces it by compare-and-swap (CAS).

A CAS without a response may have succeeded or may succeed later. So the manifest is read before a retry: the change is
there; or another writer was faster, and the change is applied to its version; or nothing has changed, and the
same CAS is sent again, of which at most one succeeds. Versions are counted, so no manifest ever equals an earlier one.
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
"""Of one change. Others change a manifest only now and then: a snapshot, a deletion, a new leader."""


class FencedError(StoreError):
    """Another writer has claimed the manifest, or the topic is deleted: this one stops for good."""


class ReplacedError(FencedError):
    """The manifest was rebuilt by a repair: the leader may claim it again."""


class ManifestVersion(NamedTuple):
    """A manifest as it was read or written."""

    manifest: Manifest
    data: bytes
    version: str  # the store's


Change = Callable[[Manifest], Awaitable[Manifest]]
"""Returns the same object if there is nothing to change. It may be called several times."""
Check = Callable[[Manifest], None]


async def read_manifest(store: ObjectReader, folder: PartitionFolder) -> ManifestVersion | None:
    """None if there is none; BadManifestError if there is one that cannot be used."""
    try:
        found = await store.get(folder.manifest)
    except MissingObjectError:
        return None
    return ManifestVersion(decode(found.data, folder), found.data, found.version)


async def read_page(
    store: ObjectReader, folder: PartitionFolder, page: ManifestPage
) -> tuple[SegmentEntry, ...]:
    """Its entries; those of another folder's page with whole keys."""
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
    """All entries, including those in pages; some of these may be below the log start."""
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
            raise FencedError(f"{folder.manifest} is gone: the topic is deleted")
        check(seen.manifest)
        wanted = await change(seen.manifest)
        if wanted is seen.manifest:
            return seen
        data = encode(wanted)
        try:
            version = await store.replace(folder.manifest, data, seen.version)
            return ManifestVersion(wanted, data, version)
        except (StaleVersionError, StoreUnavailableError, MissingObjectError):
            seen = await read_manifest(store, folder)
        if seen is not None and seen.data == data:
            return seen
    raise StoreUnavailableError(f"{folder.manifest} was replaced by others in {ATTEMPTS} attempts")


class ManifestFile:
    """The manifest as used by the writer of a leader epoch. Changes are sequential."""

    def __init__(
        self, store: ObjectStore, folder: PartitionFolder, writer: ManifestWriter, seen: ManifestVersion
    ) -> None:
        self._store = store
        self.folder = folder
        self.writer = writer
        self.manifest = seen.manifest
        """As far as is known: after an error the newest that was seen."""
        self._seen: ManifestVersion | None = seen

    async def change(self, change: Change) -> Manifest:
        """FencedError if another writer has claimed it. After a StoreUnavailableError the change may have been made,
        or be made later; the next one looks first."""
        seen, self._seen = self._seen, None
        seen = await change_manifest(self._store, self.folder, change, self._check, seen)
        self._seen, self.manifest = seen._replace(data=b""), seen.manifest  # the bytes may be 250 KB
        return seen.manifest

    async def look(self) -> None:
        """Read changes by others (snapshot, repair). FencedError as for a change."""
        seen = await read_manifest(self._store, self.folder)
        if seen is None:
            raise FencedError(f"{self.folder.manifest} is gone: the topic is deleted")
        self._check(seen.manifest)
        self._seen = seen._replace(data=b"")

    def _check(self, manifest: Manifest) -> None:
        self.manifest = manifest
        check_writer(manifest, self.writer, self.folder)


def check_writer(manifest: Manifest, writer: ManifestWriter, folder: PartitionFolder) -> None:
    """FencedError if another one has claimed the manifest, or if it is deleted; ReplacedError if it has an earlier
    writer than this one."""
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
