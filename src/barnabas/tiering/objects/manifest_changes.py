"""Changes of a manifest as pure functions from the old to the new one.

Each checks its preconditions and is idempotent: applied to a manifest that it has already changed, it returns
that manifest, so a change without a response can be repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from fastcrc.crc32 import iscsi as crc32c
from msgspec.structs import replace

from barnabas.common.types import uuid_to_text
from barnabas.tiering.objects.layout import PAGE_SUFFIX, PartitionFolder, SegmentName
from barnabas.tiering.objects.manifest import (
    Manifest,
    ManifestPage,
    ManifestSource,
    ManifestState,
    ManifestWriter,
    Pin,
    Removed,
    RemovedKind,
    SegmentEntry,
    check,
    encode_page,
    epochs_within,
    is_foreign,
    merge_epochs,
)

MAX_ENTRIES = 2000
"""Limit before entries move to pages: a manifest with this many has about 250 KB and is written with every segment."""

PAGE_ENTRIES = 1000

PageEntries = tuple[SegmentEntry, ...]


class ImpossibleChangeError(ValueError):
    """The change is invalid for this manifest (a bug of the caller); nothing is written."""


def new_manifest(
    folder: PartitionFolder, writer: ManifestWriter, log_start: int, now_ms: int = 0
) -> Manifest:
    return Manifest(
        cluster_id=folder.cluster_id,
        topic=folder.topic,
        topic_id=uuid_to_text(folder.topic_id),
        partition=folder.partition,
        incarnation=writer.incarnation,
        leader_epoch=writer.leader_epoch,
        writer=writer.name,
        log_start=log_start,
        sweep=log_start,
        swept_ms=now_ms,
    )


def claim(manifest: Manifest, writer: ManifestWriter) -> Manifest:
    """Claim the manifest for this writer."""
    if (manifest.incarnation, manifest.leader_epoch, manifest.writer) == writer:
        return manifest
    if (writer.incarnation, writer.leader_epoch) <= manifest.fence:
        raise ImpossibleChangeError(f"{manifest.writer} has claimed it with {manifest.fence}")
    return _changed(
        manifest, incarnation=writer.incarnation, leader_epoch=writer.leader_epoch, writer=writer.name
    )


def add(manifest: Manifest, entry: SegmentEntry) -> Manifest:
    """Append a segment that begins at the end of the last one; the first segment must contain the log start."""
    if entry in manifest.entries[-2:]:
        return manifest
    if not manifest.entries and not manifest.pages:
        fits = entry.base <= manifest.log_start < entry.end
    else:
        fits = entry.base == manifest.tiered_end
    if not fits:
        raise ImpossibleChangeError(
            f"{entry.key} holds [{entry.base}, {entry.end}); the next segment begins at {manifest.tiered_end}"
        )
    return _changed(manifest, entries=(*manifest.entries, entry))


def replace_all(manifest: Manifest, entries: PageEntries, listed: PageEntries, now_ms: int) -> Manifest:
    """Replace all `listed` entries, including those in pages, by `entries`, a consistent copy of a compacted log.
    Entries in both stay; the others become garbage."""
    pin = tuple(entry for entry in entries if entry.end > manifest.log_start)
    live = tuple(entry for entry in listed if entry.end > manifest.log_start)
    if pin == live:
        return manifest
    if not pin or pin[-1].end < manifest.tiered_end:
        raise ImpossibleChangeError(
            f"segments up to {manifest.tiered_end} cannot be replaced by segments with a lower end"
        )
    kept = {entry.key for entry in pin}
    removed = [_segment(entry) for entry in live if entry.key not in kept]
    removed += map(_page_alone, manifest.pages)
    garbage = manifest.garbage + _removed(manifest, removed, now_ms)
    return _changed(manifest, pages=(), entries=pin, garbage=garbage)


def raise_log_start(
    manifest: Manifest, offset: int, now_ms: int, page: PageEntries | None = None
) -> Manifest:
    """Turn segments that end at or below the log start into garbage. `page`: entries of `manifest.page_at(offset)`."""
    if offset <= manifest.log_start:
        return manifest
    partly = manifest.page_at(offset)
    if (partly is None) != (page is None):
        raise ImpossibleChangeError(f"the page with offset {offset} is not loaded")
    removed = [_whole_page(manifest, each) for each in manifest.pages if each.end <= offset]
    dropped = [each for each in page or () if manifest.log_start < each.end <= offset]
    dropped += [entry for entry in manifest.entries if entry.end <= offset]
    return _changed(
        manifest,
        log_start=offset,
        pages=tuple(_live(each, offset, page or ()) for each in manifest.pages if each.end > offset),
        entries=tuple(entry for entry in manifest.entries if entry.end > offset),
        garbage=manifest.garbage + _removed(manifest, [*removed, *map(_segment, dropped)], now_ms),
    )


def collect(manifest: Manifest, keys: Collection[str]) -> Manifest:
    """Remove garbage whose objects were deleted."""
    left = tuple(each for each in manifest.garbage if each.key not in keys)
    return manifest if left == manifest.garbage else _changed(manifest, garbage=left)


def cut(manifest: Manifest, offset: int, now_ms: int, page: PageEntries | None = None) -> Manifest:
    """Truncate at `offset`, where the log diverged after an unclean election: later segments go to quarantine, and
    the segment that holds the offset ends there. `page`: the entries of `manifest.page_at(offset)`."""
    if offset >= manifest.tiered_end:
        return manifest
    partly = manifest.page_at(offset)
    if (partly is None) != (page is None):
        raise ImpossibleChangeError(f"the page with offset {offset} is not loaded")
    limit = offset if offset > manifest.log_start else -1  # no live segment would remain
    is_split = partly is not None and partly.base < limit
    listed_again = [each for each in page or () if is_split and each.end > manifest.log_start]
    entries = [*listed_again, *manifest.entries]
    removed = [_whole_page(manifest, each) for each in manifest.pages if each.base >= limit]
    removed += [_segment(entry) for entry in entries if entry.base >= limit]
    lists = [_page_alone(partly)] if partly is not None and is_split else []
    return _changed(
        manifest,
        pages=tuple(each for each in manifest.pages if each.end <= limit),
        entries=tuple(shortened(entry, limit) for entry in entries if entry.base < limit),
        quarantine=manifest.quarantine + _removed(manifest, removed, now_ms),
        garbage=manifest.garbage + _removed(manifest, lists, now_ms),
    )


def drop_quarantine(manifest: Manifest, now_ms: int) -> Manifest:
    """Turn quarantined segments into garbage; only by an operator's command."""
    if not manifest.quarantine:
        return manifest
    moved = tuple(replace(each, since_ms=now_ms) for each in manifest.quarantine)
    return _changed(manifest, quarantine=(), garbage=manifest.garbage + moved)


def pin(manifest: Manifest, name: str, now_ms: int) -> Manifest:
    """Pin the listed segments."""
    if find_pin(manifest, name):
        return manifest
    pin = Pin(name, manifest.version, manifest.log_start, manifest.tiered_end, now_ms)
    return _changed(manifest, pins=(*manifest.pins, pin))


def pin_as(manifest: Manifest, name: str, other: str, now_ms: int) -> Manifest:
    """Add a pin with the range of another pin."""
    if find_pin(manifest, name):
        return manifest
    kept = find_pin(manifest, other)
    if kept is None:
        raise ImpossibleChangeError(f"pin {other} no longer exists")
    return _changed(manifest, pins=(*manifest.pins, replace(kept, name=name, created_ms=now_ms)))


def find_pin(manifest: Manifest, name: str) -> Pin | None:
    return next((each for each in manifest.pins if each.name == name), None)


def unpin(manifest: Manifest, name: str) -> Manifest:
    left = tuple(each for each in manifest.pins if each.name != name)
    return manifest if left == manifest.pins else _changed(manifest, pins=left)


def touch(manifest: Manifest) -> Manifest:
    """Increment the version only, so that earlier CAS requests fail."""
    return _changed(manifest)


def forget_source(manifest: Manifest, source: ManifestSource) -> Manifest:
    """Remove a source of which a clone no longer lists any object."""
    left = tuple(each for each in manifest.sources if each != source)
    return manifest if left == manifest.sources else _changed(manifest, sources=left)


def note_sweep(manifest: Manifest, offset: int) -> Manifest:
    """Record that no orphan exists below `offset`."""
    return manifest if offset <= manifest.sweep else _changed(manifest, sweep=offset)


def note_full_sweep(manifest: Manifest, now_ms: int) -> Manifest:
    """Record a full sweep."""
    return manifest if now_ms <= manifest.swept_ms else _changed(manifest, swept_ms=now_ms)


def mark_deleted(manifest: Manifest) -> Manifest:
    """Mark the topic as deleted: no more segments are added."""
    return (
        manifest
        if manifest.state is ManifestState.DELETED
        else _changed(manifest, state=ManifestState.DELETED)
    )


def needs_page(manifest: Manifest) -> bool:
    return len(manifest.entries) >= MAX_ENTRIES


def move_to_page(manifest: Manifest, leader_epoch: int) -> tuple[Manifest, str, bytes]:
    """Move the oldest entries to a page; return the manifest, and name and contents of the page, which must be written
    first. The name is derived from the contents, so that a retry writes the same object. Its offset is T, so that a
    sweep finds it if the leader fails."""
    moved, kept = manifest.entries[:PAGE_ENTRIES], manifest.entries[PAGE_ENTRIES:]
    data = encode_page(moved)
    name = str(SegmentName(manifest.tiered_end, leader_epoch, f"{crc32c(data):08x}", PAGE_SUFFIX))
    after = _changed(manifest, pages=(*manifest.pages, page_of(name, moved, data)), entries=kept)
    return after, name, data


def pinned_run(manifest: Manifest) -> tuple[Removed, ...]:
    """Return the first contiguous PAGE_ENTRIES pinned garbage segments, if there is too much garbage; otherwise
    empty."""
    run: list[Removed] = []
    for each in manifest.garbage if len(manifest.garbage) >= MAX_ENTRIES else ():
        if each.kind is not RemovedKind.SEGMENT or may_be_deleted(manifest, each):
            continue
        if run and run[-1].end != each.base:
            run = []
        run.append(each)
        if len(run) == PAGE_ENTRIES:
            return tuple(run)
    return ()


def garbage_to_page(
    manifest: Manifest, run: tuple[Removed, ...], leader_epoch: int
) -> tuple[Manifest, str, bytes]:
    """Move pinned garbage to a page, as `move_to_page`. Its segments are deleted together, when none is pinned any
    more. Readers never use this page, so only its names and offsets are meaningful."""
    data = encode_page(
        tuple(SegmentEntry(each.base, each.end, each.key, each.size, 0, each.size, -1, 0, ()) for each in run)
    )
    name = str(SegmentName(manifest.tiered_end, leader_epoch, f"{crc32c(data):08x}", PAGE_SUFFIX))
    since_ms, version = max(each.since_ms for each in run), max(each.version for each in run)
    size = sum(each.size for each in run)
    page = Removed(name, run[0].base, run[-1].end, size, since_ms, version, RemovedKind.PAGE)
    moved = {each.key for each in run}
    left = tuple(each for each in manifest.garbage if each.key not in moved)
    return _changed(manifest, garbage=(*left, page)), name, data


def page_of(name: str, entries: PageEntries, data: bytes) -> ManifestPage:
    return ManifestPage(
        key=name,
        base=entries[0].base,
        end=entries[-1].end,
        count=len(entries),
        size=sum(entry.size for entry in entries),
        largest_timestamp=max(entry.largest_timestamp for entry in entries),
        crc=crc32c(data),
        epochs=merge_epochs(entry.epochs for entry in entries),
    )


def may_be_deleted(manifest: Manifest, removed: Removed) -> bool:
    """True if no pin keeps it: a pin keeps objects listed at its version and within its range."""
    return not any(
        each.version < removed.version and removed.base < each.end and removed.end > each.start
        for each in manifest.pins
    )


# -- helpers ------------------------------------------------------------------------------------------


def _changed(manifest: Manifest, **fields: Any) -> Manifest:
    after = replace(manifest, version=manifest.version + 1, **fields)
    try:
        check(after)
    except ValueError as error:
        raise ImpossibleChangeError(str(error)) from error
    return after


def _segment(entry: SegmentEntry) -> Removed:
    return Removed(entry.key, entry.base, entry.end, entry.size, 0, 0)


def _whole_page(manifest: Manifest, page: ManifestPage) -> Removed:
    base = max(page.base, manifest.log_start)
    return Removed(page.key, base, page.end, page.size, 0, 0, RemovedKind.PAGE)


def _live(page: ManifestPage, log_start: int, entries: PageEntries) -> ManifestPage:
    """Return the page with size and count of its live entries."""
    if page.base >= log_start:
        return page
    live = [entry for entry in entries if entry.end > log_start]
    return replace(page, count=len(live), size=sum(entry.size for entry in live))


def _page_alone(page: ManifestPage) -> Removed:
    return Removed(page.key, page.base, page.end, 0, 0, 0, RemovedKind.LIST)


def _removed(manifest: Manifest, removed: Iterable[Removed], now_ms: int) -> tuple[Removed, ...]:
    """Add removed objects with a timestamp, except those of other folders, which this partition must not delete."""
    version = manifest.version + 1
    return tuple(
        replace(each, since_ms=now_ms, version=version) for each in removed if not is_foreign(each.key)
    )


def shortened(entry: SegmentEntry, end: int) -> SegmentEntry:
    if entry.end <= end:
        return entry
    return replace(entry, end=end, epochs=epochs_within(entry.epochs, entry.base, end))
