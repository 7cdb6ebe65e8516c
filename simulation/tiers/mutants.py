"""Seeded bugs of copying and expiring. Each breaks one rule of the design."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from barnabas.broker.tiering.deletions import RemoteDeletions
from barnabas.broker.tiering.leader_log import ManifestSegments
from barnabas.common.files import Slice
from barnabas.replication.partition import Partition
from barnabas.tiering.objects import manifest_file
from barnabas.tiering.objects.manifest import Manifest, SegmentEntry
from barnabas.tiering.objects.manifest_file import ManifestFile
from barnabas.tiering.reading.remote_log import RemoteLog, RemoteRead
from barnabas.tiering.stores.store import ObjectStore
from barnabas.tiering.writing import claim, remote_writer
from barnabas.tiering.writing.copier import SegmentCopier
from barnabas.tiering.writing.expiration import delete_all, expire


@contextmanager
def nobody_claims() -> Iterator[None]:
    """A leader puts its epoch into object names only and does not fence its predecessor."""

    def unchanged(manifest: Manifest, writer: object) -> Manifest:
        return manifest

    def accept(*_: object) -> None:
        return

    with (
        patch.object(claim, "claim", unchanged),
        patch.object(claim, "_check_fence", accept),
        patch.object(manifest_file, "check_writer", accept),
    ):
        yield


@contextmanager
def objects_are_deleted_before_the_manifest_says_so() -> Iterator[None]:
    async def delete_first(store: ObjectStore, file: ManifestFile, log_start: int, *rest: Any) -> int:
        removed = [entry for entry in file.manifest.entries if entry.end <= log_start]
        await delete_all(store, [file.folder.key(entry.key) for entry in removed])
        return await expire(store, file, log_start, *rest)

    with patch.object(remote_writer, "expire", delete_first):
        yield


@contextmanager
def local_segments_go_before_the_manifest_lists_them() -> Iterator[None]:
    """Local retention before U5: uploaded segments count as copied."""
    upload = SegmentCopier._upload

    async def too_early(self: SegmentCopier, planned: Any) -> SegmentEntry:
        entry = await upload(self, planned)
        self._log.note_tiered_end(entry.end)
        return entry

    with patch.object(SegmentCopier, "_upload", too_early):
        yield


@contextmanager
def remote_segments_hide_nothing() -> Iterator[None]:
    """read_committed fetches from a remote segment omit its aborted transactions."""

    def all_of_it(self: RemoteLog, found: object, offset: int, data: Slice, *_: object) -> RemoteRead:
        return RemoteRead(data, [])

    with patch.object(RemoteLog, "_without_aborted", all_of_it):
        yield


@contextmanager
def remote_segments_expire_before_they_are_known() -> Iterator[None]:
    """A new leader that cannot read the manifest takes its oldest local segment for the start of the log."""
    with patch.object(ManifestSegments, "is_known", True):
        yield


@contextmanager
def an_unclean_leader_does_not_wait() -> Iterator[None]:
    """An uncleanly elected leader accepts records before it has read the manifest. Detected by `unclean` scenarios."""

    def never(*_: object) -> bool:
        return False

    with patch.object(Partition, "_must_recover", never):
        yield


@contextmanager
def only_the_first_controller_deletes() -> Iterator[None]:
    """A new controller does not resume the deletion of a topic's objects. Detected by `deleted` scenarios."""
    look = RemoteDeletions._poll
    looked: list[RemoteDeletions] = []

    async def once(self: RemoteDeletions) -> bool:
        if looked and looked[0] is not self:
            return False
        looked.append(self)
        return await look(self)

    with patch.object(RemoteDeletions, "_poll", once):
        yield


MUTANTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    mutant.__name__: mutant
    for mutant in (
        nobody_claims,
        objects_are_deleted_before_the_manifest_says_so,
        local_segments_go_before_the_manifest_lists_them,
        remote_segments_hide_nothing,
        remote_segments_expire_before_they_are_known,
    )
}
