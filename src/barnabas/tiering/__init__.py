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
    from barnabas.tiering.repair import ObjectFinding as ObjectFinding
    from barnabas.tiering.repair import Rebuilt as Rebuilt
    from barnabas.tiering.repair import find_pins as find_pins
    from barnabas.tiering.repair import manifest_object as manifest_object
    from barnabas.tiering.repair import rebuild as rebuild
    from barnabas.tiering.repair import verify as verify
    from barnabas.tiering.repair import write_rebuilt as write_rebuilt
    from barnabas.tiering.snapshots import BEFORE_ANY_LEADER as BEFORE_ANY_LEADER
    from barnabas.tiering.snapshots import SnapshotPartition as SnapshotPartition
    from barnabas.tiering.snapshots import SnapshotState as SnapshotState
    from barnabas.tiering.snapshots import TieredSnapshot as TieredSnapshot
    from barnabas.tiering.snapshots import check_name as check_name
    from barnabas.tiering.snapshots import clone_partition as clone_partition
    from barnabas.tiering.snapshots import create_snapshot as create_snapshot
    from barnabas.tiering.snapshots import delete_snapshot as delete_snapshot
    from barnabas.tiering.snapshots import list_snapshots as list_snapshots
    from barnabas.tiering.snapshots import read_copy as read_copy
    from barnabas.tiering.snapshots import read_snapshot as read_snapshot
    from barnabas.tiering.snapshots import snapshot_topics as snapshot_topics
else:
    __getattr__ = lazy_exports(__name__)
