"""Snapshots: copies of manifests, and pins that retain the listed objects. Segments are not copied.

    <cluster id>/snapshots/<name>/snapshot                            list of partitions; creating it reserves the name
                                 /<topic>.<topic id>/<partition>      manifest at the time of the pin

A clone is a new partition whose manifest lists objects of another partition and pins them there. Each step can be
repeated: an interrupted snapshot is deleted and created again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from enum import StrEnum
from functools import partial

import msgspec
from msgspec.structs import replace

from barnabas.tiering.objects.layout import (
    DamagedError,
    PartitionFolder,
    parse_partition_prefix,
    seal,
    snapshots_prefix,
    topics_prefix,
    unseal,
)
from barnabas.tiering.objects.manifest import (
    Manifest,
    ManifestPage,
    ManifestSource,
    ManifestState,
    ManifestWriter,
    SegmentEntry,
    decode,
    encode,
    whole_key,
)
from barnabas.tiering.objects.manifest_changes import new_manifest, pin, pin_as
from barnabas.tiering.objects.manifest_file import change_manifest, check_live, read_manifest
from barnabas.tiering.reading.bucket_topics import BucketPartition, TopicFolder
from barnabas.tiering.stores.store import (
    MissingObjectError,
    ObjectExistsError,
    ObjectReader,
    ObjectStore,
    StoreError,
    StoreUnavailableError,
)
from barnabas.tiering.writing.expiration import delete_partition, release

INDEX = "snapshot"
BEFORE_ANY_LEADER = -1
"""Leader epoch of a clone's manifest: any leader may claim it."""

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


class SnapshotState(StrEnum):
    CREATING = "creating"
    COMPLETE = "complete"
    DELETING = "deleting"


class SnapshotPartition(msgspec.Struct, frozen=True):
    prefix: str
    log_start: int = 0
    tiered_end: int = 0
    size: int = 0


class TieredSnapshot(msgspec.Struct, frozen=True):
    name: str
    created_ms: int
    state: SnapshotState
    partitions: tuple[SnapshotPartition, ...]


class SnapshotError(StoreError):
    """The snapshot does not exist or cannot be used."""


Progress = Callable[[SnapshotPartition], None]


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise SnapshotError(
            f"not a valid snapshot name: {name!r} (up to 100 letters, digits, `.`, `_` and `-`)"
        )


def pin_of_snapshot(name: str) -> str:
    return f"snapshot {name}"


async def create_snapshot(
    store: ObjectStore,
    cluster_id: str,
    name: str,
    folders: Sequence[PartitionFolder],
    now_ms: int,
    progress: Progress = lambda partition: None,
) -> TieredSnapshot:
    """Create a snapshot of all tiered records. Records above the tiered end, and untiered partitions, are not
    included."""
    check_name(name)
    found = [folder for folder in folders if await read_manifest(store, folder) is not None]
    requested = tuple(SnapshotPartition(folder.prefix) for folder in found)
    snapshot = TieredSnapshot(name, now_ms, SnapshotState.CREATING, requested)
    await _reserve(store, cluster_id, snapshot)
    done = []
    for folder in found:
        done.append(await _pin_and_copy(store, cluster_id, name, folder, now_ms))
        progress(done[-1])
    snapshot = replace(snapshot, state=SnapshotState.COMPLETE, partitions=tuple(done))
    await store.put(_index(cluster_id, name), seal(snapshot))
    return snapshot


async def _reserve(store: ObjectStore, cluster_id: str, snapshot: TieredSnapshot) -> None:
    key, data = _index(cluster_id, snapshot.name), seal(snapshot)
    try:
        await store.create(key, data)
    except ObjectExistsError as error:
        raise SnapshotError(f"snapshot {snapshot.name} already exists; delete it first") from error
    except StoreUnavailableError as error:
        try:
            found = await store.get(key)
        except MissingObjectError:
            raise error from None
        if found.data != data:
            raise


async def _pin_and_copy(
    store: ObjectStore, cluster_id: str, name: str, folder: PartitionFolder, now_ms: int
) -> SnapshotPartition:
    async def pinned(manifest: Manifest) -> Manifest:
        return pin(manifest, pin_of_snapshot(name), now_ms)

    seen = await change_manifest(store, folder, pinned, partial(check_live, folder=folder))
    await store.put(_copy_key(cluster_id, name, folder), seen.data)
    manifest = seen.manifest
    return SnapshotPartition(folder.prefix, manifest.log_start, manifest.tiered_end, manifest.size)


async def list_snapshots(store: ObjectStore, cluster_id: str) -> AsyncIterator[TieredSnapshot]:
    async for info in store.list(snapshots_prefix(cluster_id)):
        name, _, rest = info.key.removeprefix(snapshots_prefix(cluster_id)).partition("/")
        if rest == INDEX:
            yield await read_snapshot(store, cluster_id, name)


async def read_snapshot(store: ObjectReader, cluster_id: str, name: str) -> TieredSnapshot:
    key = _index(cluster_id, name)
    try:
        return unseal((await store.get(key)).data, TieredSnapshot)
    except MissingObjectError as error:
        raise SnapshotError(f"snapshot {name} does not exist") from error
    except DamagedError as error:
        raise SnapshotError(f"{key} is damaged: {error}") from error


async def delete_snapshot(
    store: ObjectStore, cluster_id: str, name: str, progress: Progress = lambda partition: None
) -> None:
    """Delete the pins, the copies and the snapshot. Objects of topics deleted in the meantime are deleted too."""
    snapshot = await read_snapshot(store, cluster_id, name)
    await store.put(_index(cluster_id, name), seal(replace(snapshot, state=SnapshotState.DELETING)))
    for partition in snapshot.partitions:
        folder = _folder(partition.prefix)
        await release(store, ManifestSource(partition.prefix, pin_of_snapshot(name)))
        await store.delete(_copy_key(cluster_id, name, folder))
        seen = await read_manifest(store, folder)
        if seen is not None and seen.manifest.state is ManifestState.DELETED:
            await delete_partition(store, folder, seen.manifest.incarnation)
        progress(partition)
    await store.delete(_index(cluster_id, name))


async def read_copy(store: ObjectReader, name: str, folder: PartitionFolder) -> Manifest:
    """Return a partition's manifest from the snapshot."""
    try:
        return decode((await store.get(_copy_key(folder.cluster_id, name, folder))).data, folder)
    except MissingObjectError as error:
        raise SnapshotError(f"{folder.prefix} is not in the snapshot {name}") from error


async def snapshot_topics(
    store: ObjectReader, cluster_id: str, name: str
) -> dict[TopicFolder, list[BucketPartition]]:
    """Topics of a snapshot as of its creation. SnapshotError if it is incomplete."""
    snapshot = await read_snapshot(store, cluster_id, name)
    if snapshot.state is not SnapshotState.COMPLETE:
        raise SnapshotError(f"snapshot {name} is incomplete ({snapshot.state}) and cannot be read")
    folders = [_folder(partition.prefix) for partition in snapshot.partitions]
    copies = await asyncio.gather(*(read_copy(store, name, folder) for folder in folders))
    found: dict[TopicFolder, list[BucketPartition]] = {}
    for folder, manifest in zip(folders, copies, strict=True):
        found.setdefault(TopicFolder(*folder[:3]), []).append(BucketPartition(folder, manifest))
    return found


async def clone_partition(
    store: ObjectStore,
    name: str,
    source: PartitionFolder,
    target: PartitionFolder,
    incarnation: int,
    now_ms: int,
) -> Manifest:
    """Create the manifest of a new, empty partition that reads the segments of a snapshot. Its first leader needs an
    epoch above `latest_epoch`: the records keep their epochs."""
    copy = await read_copy(store, name, source)
    clone = f"clone {target.prefix}"
    await _pin_as(store, source, clone, pin_of_snapshot(name), now_ms)
    for further in copy.sources:  # the source is a clone itself
        await _pin_as(store, _folder(further.prefix), clone, further.pin, now_ms)
    sources = tuple(
        ManifestSource(prefix, clone) for prefix in (source.prefix, *(each.prefix for each in copy.sources))
    )
    manifest = cloned(copy, source, target, incarnation, sources)
    try:
        await store.create(target.manifest, encode(manifest))
    except (ObjectExistsError, StoreUnavailableError) as error:
        found = await read_manifest(store, target)
        if found is None or found.manifest != manifest:
            raise SnapshotError(f"{target.manifest} already exists: restore to a new topic") from error
    return manifest


def cloned(
    copy: Manifest,
    source: PartitionFolder,
    target: PartitionFolder,
    incarnation: int,
    sources: tuple[ManifestSource, ...],
) -> Manifest:
    """Return a manifest that lists the same segments by full key."""
    writer = ManifestWriter(incarnation, BEFORE_ANY_LEADER, f"clone of {source.prefix}")
    return replace(
        new_manifest(target, writer, copy.log_start),
        entries=tuple(_with_whole_key(source, entry) for entry in copy.entries),
        pages=tuple(_page_with_whole_key(source, page) for page in copy.pages),
        sources=sources,
        sweep=copy.tiered_end,
    )


async def _pin_as(store: ObjectStore, folder: PartitionFolder, name: str, other: str, now_ms: int) -> None:
    async def pinned(manifest: Manifest) -> Manifest:
        return pin_as(manifest, name, other, now_ms)

    await change_manifest(store, folder, pinned, lambda manifest: None)


def _with_whole_key(folder: PartitionFolder, entry: SegmentEntry) -> SegmentEntry:
    return replace(entry, key=whole_key(folder.prefix, entry.key))


def _page_with_whole_key(folder: PartitionFolder, page: ManifestPage) -> ManifestPage:
    return replace(page, key=whole_key(folder.prefix, page.key))


def _index(cluster_id: str, name: str) -> str:
    return f"{snapshots_prefix(cluster_id)}{name}/{INDEX}"


def _copy_key(cluster_id: str, name: str, folder: PartitionFolder) -> str:
    below = folder.prefix.removeprefix(topics_prefix(folder.cluster_id)).rstrip("/")
    return f"{snapshots_prefix(cluster_id)}{name}/{below}"


def _folder(prefix: str) -> PartitionFolder:
    folder = parse_partition_prefix(prefix)
    if folder is None:
        raise SnapshotError(f"{prefix} is not the folder of a partition")
    return folder
