"""The manifest of a partition: the authoritative list of its remote segments.

It is one small JSON object, replaced by compare-and-swap. This module defines the values; `manifest_changes` defines
the changes as pure functions, and `manifest_file` reads and replaces the object.

    log start        first readable offset. The first segment may begin below it.
    tiered end (T)   first offset that is not in a remote segment
    pages            oldest entries, in immutable objects of a thousand each, once there are more than 2,000
    entries          the other segments, contiguous
    garbage          formerly listed; deleted when no reader of an older manifest and no older pin needs it. Pinned
                     garbage moves to pages too, a thousand segments each
    quarantine       cut by an unclean election; deleted only by an operator
    pins             snapshots and clones that read the entries of an earlier version
    sources          manifests of other topics whose objects a clone reads
    sweep            unlisted objects below this offset were removed by an earlier sweep
    swept_ms         time of the last full sweep
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import msgspec

from barnabas.common.types import uuid_to_text
from barnabas.tiering.objects.layout import DamagedError, PartitionFolder, seal, unseal
from barnabas.tiering.stores.store import StoreError

FORMAT = 1

Epochs = tuple[tuple[int, int], ...]
"""(leader epoch, first offset) pairs, both ascending."""


class ManifestState(StrEnum):
    LIVE = "live"
    DELETED = "deleted"


class RemovedKind(StrEnum):
    """Type of a removed object."""

    SEGMENT = "segment"
    PAGE = "page"  # the page and those of its segments that end above `base`
    LIST = "list"  # only the page: its segments are listed elsewhere


class BadManifestError(StoreError):
    """Manifest that is damaged or belongs to another partition. It is never overwritten."""


class ForeignManifestError(BadManifestError):
    """Intact manifest of another partition or a later Barnabas version: a repair must not replace it either."""


class SegmentEntry(msgspec.Struct, frozen=True, array_like=True):
    """One remote segment. After an unclean election `end` may be below the end of the object's records."""

    base: int
    end: int  # exclusive
    key: str  # name in the partition's folder, or a full key if it contains a `/` (`entry_key`)
    size: int  # bytes of records, at the beginning of the object
    footer: int  # position of the footer
    total: int  # size of the object
    largest_timestamp: int
    crc: int  # CRC-32C of the footer
    epochs: Epochs  # of its records; the first one may start below `base`


class ManifestPage(msgspec.Struct, frozen=True, array_like=True):
    """Object with entries. Those that end at or below the log start are no longer live."""

    key: str
    base: int
    end: int
    count: int  # live entries
    size: int  # bytes of their records
    largest_timestamp: int
    crc: int  # CRC-32C of the object
    epochs: Epochs


class Removed(msgspec.Struct, frozen=True, array_like=True):
    """Object that was listed until `version`."""

    key: str
    base: int
    end: int
    size: int
    since_ms: int
    version: int
    kind: RemovedKind = RemovedKind.SEGMENT


class Pin(msgspec.Struct, frozen=True, array_like=True):
    """Retains the objects that the manifest of this version lists in [start, end)."""

    name: str
    version: int
    start: int
    end: int
    created_ms: int


class ManifestSource(msgspec.Struct, frozen=True, array_like=True):
    """Prefix of another partition's folder, and the name of the pin there."""

    prefix: str
    pin: str


class ManifestWriter(NamedTuple):
    """Writer of a manifest: one start of a broker, as leader of one epoch."""

    incarnation: int
    leader_epoch: int
    name: str  # unique per broker start


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    cluster_id: str
    topic: str
    topic_id: str
    partition: int
    incarnation: int
    leader_epoch: int
    writer: str
    version: int = 0
    state: ManifestState = ManifestState.LIVE
    log_start: int = 0
    entries: tuple[SegmentEntry, ...] = ()
    garbage: tuple[Removed, ...] = ()
    quarantine: tuple[Removed, ...] = ()
    pins: tuple[Pin, ...] = ()
    sources: tuple[ManifestSource, ...] = ()
    sweep: int = 0
    swept_ms: int = 0
    pages: tuple[ManifestPage, ...] = ()

    @property
    def fence(self) -> tuple[int, int]:
        """Fencing token: larger for a later writer."""
        return self.incarnation, self.leader_epoch

    @property
    def parts(self) -> tuple[SegmentEntry | ManifestPage, ...]:
        return (*self.pages, *self.entries)

    @property
    def tiered_end(self) -> int:
        last = self.entries or self.pages
        return last[-1].end if last else self.log_start

    @property
    def size(self) -> int:
        """Bytes of records in live segments."""
        return sum(part.size for part in self.parts)

    @property
    def epochs(self) -> Epochs:
        return merge_epochs(part.epochs for part in self.parts)

    @property
    def latest_epoch(self) -> int:
        """Latest epoch in the segments; a leader that continues after them needs a higher one."""
        epochs = self.epochs
        return max(self.leader_epoch, epochs[-1][0] if epochs else -1)

    def entry_at(self, offset: int) -> SegmentEntry | None:
        """Return the entry that contains the offset; None if there is none or it is in a page (`page_at`)."""
        return find_entry(self.entries, offset)

    def page_at(self, offset: int) -> ManifestPage | None:
        at = bisect_right(self.pages, offset, key=_base) - 1
        return self.pages[at] if at >= 0 and offset < self.pages[at].end else None

    def named(self) -> frozenset[str]:
        """Keys of all objects listed here, without those in pages."""
        parts = (*self.parts, *self.garbage, *self.quarantine)
        return frozenset(part.key for part in parts)

    def may_name(self, key: str, base: int) -> bool:
        """False only if an object with this base is listed neither here nor in a page."""
        removed = (*self.garbage, *self.quarantine)
        in_removed_page = any(each.kind is RemovedKind.PAGE and base < each.end for each in removed)
        return key in self.named() or self.page_at(base) is not None or in_removed_page


def find_entry(entries: tuple[SegmentEntry, ...], offset: int) -> SegmentEntry | None:
    at = bisect_right(entries, offset, key=_base) - 1
    return entries[at] if at >= 0 and offset < entries[at].end else None


def _base(part: SegmentEntry | ManifestPage) -> int:
    return part.base


def whole_key(prefix: str, key: str) -> str:
    """Return the full key; a clone already lists objects of other folders by full key."""
    return key if "/" in key else prefix + key


def entry_key(folder: PartitionFolder, part: SegmentEntry | ManifestPage | Removed) -> str:
    """Full key in the store."""
    return whole_key(folder.prefix, part.key)


def is_foreign(key: str) -> bool:
    return "/" in key


def merge_epochs(lists: Iterable[Epochs]) -> Epochs:
    merged: list[tuple[int, int]] = []
    for epochs in lists:
        merged += [each for each in epochs if not merged or each[0] > merged[-1][0]]
    return tuple(merged)


def epochs_within(epochs: Epochs, base: int, end: int) -> Epochs:
    """Epochs of the records in [base, end)."""
    first = max(bisect_right(epochs, base, key=_start_of) - 1, 0)
    return tuple(each for each in epochs[first:] if each[1] < end)


def _start_of(epoch: tuple[int, int]) -> int:
    return epoch[1]


# -- the objects --------------------------------------------------------------------------------------


def encode(manifest: Manifest) -> bytes:
    return seal(manifest)


def decode(data: bytes, folder: PartitionFolder) -> Manifest:
    """Decode a manifest; BadManifestError if it is damaged, of a later version, or of another partition."""
    try:
        _check_format(unseal(data, _Format).format, folder)
        manifest = unseal(data, Manifest)
        check(manifest)
    except (DamagedError, ValueError) as error:
        raise BadManifestError(
            f"{folder.manifest} is damaged: {error}. Remote reads and writes of this partition are disabled; "
            f"`barnabas tier repair {folder.topic}` rebuilds the manifest from the segments."
        ) from error
    stored_owner = manifest.cluster_id, manifest.topic_id, manifest.partition
    if stored_owner != (folder.cluster_id, uuid_to_text(folder.topic_id), folder.partition):
        raise ForeignManifestError(
            f"{folder.manifest} belongs to partition {manifest.partition} of topic {manifest.topic} "
            f"(id {manifest.topic_id}) of cluster {manifest.cluster_id}: is this the right bucket and prefix?"
        )
    return manifest


class _Format(msgspec.Struct):
    format: int


def _check_format(found: int, folder: PartitionFolder) -> None:
    if found != FORMAT:
        raise ForeignManifestError(
            f"{folder.manifest} has format {found}, written by a newer version; this one supports format {FORMAT}"
        )


def encode_page(entries: tuple[SegmentEntry, ...]) -> bytes:
    return seal(entries)


def decode_page(data: bytes, key: str) -> tuple[SegmentEntry, ...]:
    try:
        entries = unseal(data, tuple[SegmentEntry, ...])
        _check_contiguous(entries)
    except (DamagedError, ValueError) as error:
        raise BadManifestError(f"{key}, a page of a manifest, is damaged: {error}") from error
    return entries


def check(manifest: Manifest) -> None:
    """Raise ValueError if the manifest is inconsistent."""
    parts = manifest.parts
    _check_contiguous(parts)
    if parts and not parts[0].base <= manifest.log_start < parts[-1].end:
        raise ValueError(f"segments of [{parts[0].base}, {parts[-1].end}), log start {manifest.log_start}")


def _check_contiguous(parts: tuple[SegmentEntry | ManifestPage, ...]) -> None:
    for part in parts:
        if part.base >= part.end:
            raise ValueError(f"a segment of [{part.base}, {part.end})")
    for earlier, later in pairwise(parts):
        if earlier.end != later.base:
            raise ValueError(f"{earlier.key} ends at {earlier.end}, {later.key} begins at {later.base}")
