"""Claim a manifest: the first step of a new leader before it writes to the store.

There is one writer per leader epoch. The claim is a CAS that writes the leader's epoch into the manifest. Any later CAS
of an earlier leader fails, because it is based on an older version. A restored cluster has a higher incarnation, which
takes precedence over epochs.

The claim also compares the log with the manifest. After a clean election the log contains all copied records; after an
unclean one it may be behind or have diverged:

| the log                               | decision                                                   |
|---------------------------------------|------------------------------------------------------------|
| has all below T, with the same epochs | KEEP                                                       |
| ends below T, same epochs so far      | START_AT T: copied records were committed                  |
| has other epochs from some offset on  | KEEP; the manifest is cut there, and later segments        |
|                                       | go to quarantine                                           |

A compacted log is always kept locally as a whole, and the copier replaces all listed segments. Its epochs are not
compared, because they depend on the progress of compaction. If it ends below T, the manifest is cut there; if it is
lost, it is rebuilt from the copy (START_AT). An empty log that already accepts writes is refused, so that it does not
replace the copy.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import Enum
from typing import NamedTuple

from barnabas.tiering.objects.layout import PartitionFolder
from barnabas.tiering.objects.manifest import BadManifestError, Epochs, Manifest, ManifestWriter, encode
from barnabas.tiering.objects.manifest_changes import claim, cut, new_manifest, raise_log_start
from barnabas.tiering.objects.manifest_file import (
    FencedError,
    ManifestFile,
    ManifestVersion,
    change_manifest,
    check_live,
    read_manifest,
    read_page_at,
)
from barnabas.tiering.stores.store import ObjectExistsError, ObjectStore, StoreUnavailableError


class LogView(NamedTuple):
    """State of the leader's log that a claim depends on."""

    start: int
    local_start: int
    end: int
    epochs: Epochs  # from the log start on
    is_lost: bool = False  # compacted log that must be rebuilt and accepts no writes


class Decision(Enum):
    KEEP = "the log is kept"
    START_AT = "the log restarts, empty, at the tiered end"


class Claim(NamedTuple):
    """Claimed manifest, and the change of the log required before the broker accepts records. The log always takes the
    manifest's log start."""

    file: ManifestFile
    decision: Decision
    start_at: int  # for START_AT: the tiered end
    cut_at: int | None  # offset at which the manifest was cut

    @property
    def log_start(self) -> int:
        return self.file.manifest.log_start


async def claim_manifest(
    store: ObjectStore,
    folder: PartitionFolder,
    writer: ManifestWriter,
    log: LogView,
    now_ms: int,
    *,
    compacted: bool = False,
) -> Claim:
    """Claim the manifest. FencedError if a later writer has claimed it; BadManifestError if it is unusable.
    `compacted`: the log is compacted and completely local."""
    cut_at: int | None = None

    async def claimed(manifest: Manifest) -> Manifest:
        nonlocal cut_at
        cut_at = None
        after = claim(manifest, writer)
        page = await read_page_at(store, folder, after, log.start)
        after = raise_log_start(after, log.start, now_ms, page)
        found = _lost_from(after, log, folder) if compacted else divergence(after, log)
        if found is None:
            return after
        cut_at = found
        return cut(after, found, now_ms, await read_page_at(store, folder, after, found))

    def check(manifest: Manifest) -> None:
        check_live(manifest, folder)
        _check_fence(manifest, writer, folder)

    seen = await read_manifest(store, folder) or await _create(store, folder, writer, log, now_ms)
    seen = await change_manifest(store, folder, claimed, check, seen)
    is_behind = log.end < seen.manifest.tiered_end or (log.is_lost and seen.manifest.tiered_end > 0)
    decision = Decision.START_AT if is_behind else Decision.KEEP
    return Claim(ManifestFile(store, folder, writer, seen), decision, seen.manifest.tiered_end, cut_at)


async def _create(
    store: ObjectStore, folder: PartitionFolder, writer: ManifestWriter, log: LogView, now_ms: int
) -> ManifestVersion:
    """Create the manifest and return the stored one, which may be another writer's."""
    if log.local_start > log.start:
        raise BadManifestError(
            f"{folder.manifest} is missing, though records from offset {log.start} to {log.local_start} are only "
            f"in the store: is this the right bucket? `barnabas tier repair {folder.topic}` rebuilds the manifest "
            f"from the segments."
        )
    manifest = new_manifest(folder, writer, log.start, now_ms)
    data = encode(manifest)
    try:
        return ManifestVersion(manifest, data, await store.create(folder.manifest, data))
    except (ObjectExistsError, StoreUnavailableError):
        found = await read_manifest(store, folder)
        if found is None:
            raise
        return found


def _check_fence(manifest: Manifest, writer: ManifestWriter, folder: PartitionFolder) -> None:
    stored_owner = manifest.incarnation, manifest.leader_epoch, manifest.writer
    if stored_owner != writer and (writer.incarnation, writer.leader_epoch) <= manifest.fence:
        raise FencedError(
            f"{folder.manifest} is claimed by {manifest.writer} in leader epoch {manifest.leader_epoch} "
            f"(incarnation {manifest.incarnation}); epoch {writer.leader_epoch} is stale"
        )


def _lost_from(manifest: Manifest, log: LogView, folder: PartitionFolder) -> int | None:
    """End of a compacted log that lacks listed records; None if it has all of them."""
    if log.end >= manifest.tiered_end or log.is_lost:
        return None
    if log.end <= manifest.log_start:
        raise BadManifestError(
            f"{folder.manifest} lists records up to offset {manifest.tiered_end}, but the log is empty: nothing is "
            f"uploaded, which would replace them. Stop the broker and delete the folder of the "
            f"partition: the records are then restored."
        )
    return log.end


def divergence(manifest: Manifest, log: LogView) -> int | None:
    """First offset with different epochs in the log and in the segments; None if they agree."""
    remote, local = manifest.epochs, log.epochs
    if not remote or not local:
        return None
    start = max(remote[0][1], local[0][1], manifest.log_start)
    end = min(manifest.tiered_end, log.end)
    candidates = {start, *(first for _, first in (*remote, *local))}
    for offset in sorted(each for each in candidates if start <= each < end):
        if _epoch_at(remote, offset) != _epoch_at(local, offset):
            return offset
    return None


def _epoch_at(epochs: Epochs, offset: int) -> int:
    return epochs[bisect_right(epochs, offset, key=lambda each: each[1]) - 1][0]
