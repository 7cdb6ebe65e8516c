"""Rebuild a damaged or lost manifest from segment footers, and verify all objects.

The footer of an object describes its contents. Some objects may have been uploaded but never listed, and overlap with
others; their records are identical, because only committed records are uploaded. Any chain of segments up to the end of
the latest leader's copy is therefore valid. The chain with the lowest start is used and, of two segments with the same
base, the one of the later leader. Segments truncated by an unclean election are detected by their epochs: those that
contradict the latest leader are excluded, and one from whose middle it continued is shortened. All other objects go to
quarantine: a repair deletes nothing. The claim of the next leader sets the log start from its log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from barnabas.tiering.objects.layout import (
    MANIFEST,
    PartitionFolder,
    SegmentName,
    parse_object_name,
    parse_partition_prefix,
    parse_segment_name,
    topics_prefix,
)
from barnabas.tiering.objects.manifest import (
    BadManifestError,
    Epochs,
    Manifest,
    ManifestWriter,
    Pin,
    Removed,
    RemovedKind,
    SegmentEntry,
    check,
    encode,
    entry_key,
    epochs_within,
)
from barnabas.tiering.objects.manifest_changes import new_manifest, shortened
from barnabas.tiering.objects.manifest_file import read_manifest, read_page
from barnabas.tiering.objects.segment_object import (
    BadObjectError,
    find_footer,
    read_chunk,
    read_footer,
    read_section,
)
from barnabas.tiering.snapshots import SnapshotError, list_snapshots, pin_of_snapshot, read_copy
from barnabas.tiering.stores.store import (
    MissingObjectError,
    ObjectExistsError,
    ObjectStore,
    StaleVersionError,
    StoreError,
    StoreUnavailableError,
    Versioned,
)

REPAIRER = "barnabas tier repair"
_END = (1 << 63) - 1


class ObjectFinding(NamedTuple):
    """Result of checking one object. `problem` is None if it is intact."""

    key: str
    size: int
    problem: str | None = None


class Rebuilt(NamedTuple):
    manifest: Manifest
    findings: tuple[ObjectFinding, ...]


# -- rebuilding -----------------------------------------------------------------------------------------


async def rebuild(
    store: ObjectStore, folder: PartitionFolder, incarnation: int, now_ms: int, pins: Iterable[Pin] = ()
) -> Rebuilt:
    """Build a manifest from the stored segments without writing it. `pins`: those of existing snapshots."""
    entries, findings = [], []
    epoch = 0
    lineage: tuple[tuple[int, int], Epochs] = (-1, -1), ()
    async for info in store.list(folder.prefix):
        name = parse_segment_name(info.key.removeprefix(folder.prefix))
        if name is None:
            continue
        epoch = max(epoch, name.leader_epoch)
        try:
            footer, entry = await find_footer(store, info.key, info.size)
            entries.append(entry)
            lineage = max(lineage, (_by_epoch_then_end(entry), footer.epochs))
            findings.append(ObjectFinding(info.key, info.size))
        except BadObjectError as error:
            findings.append(ObjectFinding(info.key, info.size, str(error)))
    taken = chain(entries, lineage[1])
    log_start = taken[0].base if taken else 0
    # The leader of the highest epoch may claim it; earlier leaders may not.
    manifest = new_manifest(folder, ManifestWriter(incarnation, epoch - 1, REPAIRER), log_start)
    return Rebuilt(_filled(manifest, taken, entries, tuple(pins), now_ms), tuple(findings))


def _filled(
    manifest: Manifest,
    taken: tuple[SegmentEntry, ...],
    entries: Iterable[SegmentEntry],
    pins: tuple[Pin, ...],
    now_ms: int,
) -> Manifest:
    version = max((each.version for each in pins), default=0) + 1
    keys = {entry.key for entry in taken}
    left = tuple(
        Removed(each.key, each.base, each.end, each.size, now_ms, version, RemovedKind.SEGMENT)
        for each in entries
        if each.key not in keys
    )
    filled = replace(manifest, version=version, entries=taken, quarantine=left, pins=pins, sweep=0)
    check(filled)
    return filled


def chain(entries: Iterable[SegmentEntry], lineage: Epochs = ()) -> tuple[SegmentEntry, ...]:
    """Return contiguous segments from the lowest possible base up to the end of the latest leader's. `lineage`: the
    latest leader's epochs, which the segments must not contradict."""
    ordered = sorted(entries, key=_by_base_then_epoch, reverse=True)
    if not ordered:
        return ()
    last = max(ordered, key=_by_epoch_then_end).end
    following: dict[int, SegmentEntry | None] = {last: None}
    starts = [-last]  # ascending
    for entry in ordered:  # by descending base: the possible successors are known
        if entry.base in following or entry.base >= last:
            continue
        ends = starts[bisect_left(starts, -entry.end) :]  # possible ends, highest first
        parts = (shortened(entry, -end) for end in ends)
        if (part := next((each for each in parts if _fits(each, lineage)), None)) is not None:
            following[entry.base] = part
            starts.append(-entry.base)
    return _followed(following)


def _followed(following: dict[int, SegmentEntry | None]) -> tuple[SegmentEntry, ...]:
    taken: list[SegmentEntry] = []
    following_one = following[min(following)]
    while following_one is not None:
        taken.append(following_one)
        following_one = following[following_one.end]
    return tuple(taken)


def _fits(entry: SegmentEntry, lineage: Epochs) -> bool:
    """True if the epochs of its records are consistent with the lineage."""
    base = max(entry.base, lineage[0][1]) if lineage else entry.end
    if base >= entry.end:
        return True
    epochs, lineage_epochs = (epochs_within(each, base, entry.end) for each in (entry.epochs, lineage))
    clipped = [[(epoch, max(first, base)) for epoch, first in each] for each in (epochs, lineage_epochs)]
    return clipped[0] == clipped[1]


def _by_epoch_then_end(entry: SegmentEntry) -> tuple[int, int]:
    return _name(entry).leader_epoch, entry.end


def _by_base_then_epoch(entry: SegmentEntry) -> tuple[int, int]:
    return entry.base, _name(entry).leader_epoch


def _name(entry: SegmentEntry) -> SegmentName:
    name = parse_object_name(entry.key)
    if name is None:
        raise BadManifestError(f"{entry.key} is not the name of a segment")
    return name


async def find_pins(store: ObjectStore, folder: PartitionFolder) -> list[Pin]:
    """Find the pins of snapshots and clones of a partition whose manifest is lost. The range of a clone is unknown, so
    it pins everything. Other partitions of the topic are skipped: they are not clones and may be damaged too."""
    pins = []
    async for snapshot in list_snapshots(store, folder.cluster_id):
        if any(each.prefix == folder.prefix for each in snapshot.partitions):
            with suppress(SnapshotError):
                copy = await read_copy(store, snapshot.name, folder)
                pins += [each for each in copy.pins if each.name == pin_of_snapshot(snapshot.name)]
    async for info in store.list(topics_prefix(folder.cluster_id)):
        other = parse_partition_prefix(info.key.removesuffix(MANIFEST))
        if info.key.endswith(f"/{MANIFEST}") and other is not None and other.topic_id != folder.topic_id:
            clone = await read_manifest(store, other)
            sources = clone.manifest.sources if clone else ()
            pins += [Pin(each.pin, 0, 0, _END, 0) for each in sources if each.prefix == folder.prefix]
    return pins


async def manifest_object(store: ObjectStore, folder: PartitionFolder) -> Versioned | None:
    """Return the stored manifest without decoding it; None if it is missing."""
    try:
        return await store.get(folder.manifest)
    except MissingObjectError:
        return None


async def write_rebuilt(
    store: ObjectStore, folder: PartitionFolder, manifest: Manifest, now_ms: int, instead_of: Versioned | None
) -> None:
    """Replace the damaged manifest and keep a copy of it. StaleVersionError if it has changed in the meantime."""
    try:
        if instead_of is None:
            await store.create(folder.manifest, encode(manifest))
            return
        await store.put(folder.key(f"manifest.replaced-{now_ms}"), instead_of.data)
        await store.replace(folder.manifest, encode(manifest), instead_of.version)
    except (StaleVersionError, ObjectExistsError) as error:
        raise StaleVersionError(f"{folder.manifest} has changed meanwhile; run the command again") from error


# -- verification ---------------------------------------------------------------------------------------


async def verify(
    store: ObjectStore, folder: PartitionFolder, manifest: Manifest
) -> AsyncIterator[ObjectFinding]:
    """Read each listed object completely and verify its checksums. StoreUnavailableError if the store does not
    respond."""
    for page in manifest.pages:
        key = entry_key(folder, page)
        try:
            entries = await read_page(store, folder, page)
        except StoreUnavailableError:
            raise
        except StoreError as error:
            yield ObjectFinding(key, 0, str(error))
            continue
        yield ObjectFinding(key, 0)
        for entry in entries:
            if entry.end > manifest.log_start:
                yield await verify_segment(store, folder, entry)
    for entry in manifest.entries:
        yield await verify_segment(store, folder, entry)


async def verify_segment(store: ObjectStore, folder: PartitionFolder, entry: SegmentEntry) -> ObjectFinding:
    key = entry_key(folder, entry)
    try:
        footer = await read_footer(store, key, entry)
        for number in range(len(footer.chunks)):
            await read_chunk(store, key, footer, number)
        for name in footer.sections:
            await read_section(store, key, footer, name)
    except StoreUnavailableError:
        raise
    except StoreError as error:
        return ObjectFinding(key, entry.total, str(error))
    return ObjectFinding(key, entry.total)
