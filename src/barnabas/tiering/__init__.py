"""Tiered storage (KIP-405): sealed segments in an object store, listed by one manifest per partition.

Entry points: `open_store` and `ObjectStore`, `RemoteLog` for reading, `RemoteWriter` for copying, `Manifest`.

stores/            object store interface and implementations
  store              interface and errors
  opening            URL to store: a folder (`folder_store`) or a bucket (`obstore_store`)
  probe              verifies that conditional writes are atomic
objects/           formats of stored objects
  layout             the keys of all objects
  segment_object     one object per segment: bytes of the .log, indexes, footer
  segment_build      builds such an object piece by piece
  manifest           list of a partition's segments, the only source of truth
  manifest_changes   changes of the manifest as pure functions
  manifest_file      reads it and replaces it by compare-and-swap
writing/           one task per leader partition
  remote_writer      `claim`, `sweep`, `copier` (`pacing`), `expiration`
reading/           fetches below the local log start: cached chunks, indexes and manifests
snapshots          pinned copies of manifests, and clones
restoring          cluster state in the store, and restore from it
repair             rebuilds a manifest from segment footers, verifies checksums
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.tiering.repair import (
        ObjectFinding,
        Rebuilt,
        find_pins,
        manifest_object,
        rebuild,
        verify,
        write_rebuilt,
    )
    from barnabas.tiering.snapshots import (
        BEFORE_ANY_LEADER,
        SnapshotPartition,
        SnapshotState,
        TieredSnapshot,
        check_name,
        clone_partition,
        create_snapshot,
        delete_snapshot,
        list_snapshots,
        read_copy,
        read_snapshot,
        snapshot_topics,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "repair": "ObjectFinding Rebuilt find_pins manifest_object rebuild verify write_rebuilt",
            "snapshots": (
                "BEFORE_ANY_LEADER SnapshotPartition SnapshotState TieredSnapshot check_name clone_partition "
                "create_snapshot delete_snapshot list_snapshots read_copy read_snapshot snapshot_topics"
            ),
        },
    )

__all__ = [
    "BEFORE_ANY_LEADER",
    "ObjectFinding",
    "Rebuilt",
    "SnapshotPartition",
    "SnapshotState",
    "TieredSnapshot",
    "check_name",
    "clone_partition",
    "create_snapshot",
    "delete_snapshot",
    "find_pins",
    "list_snapshots",
    "manifest_object",
    "read_copy",
    "read_snapshot",
    "rebuild",
    "snapshot_topics",
    "verify",
    "write_rebuilt",
]
